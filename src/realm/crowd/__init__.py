"""What annotators are worth: aggregation, reliability with intervals, cleaned labels. numpy only."""
