"""Methods side by side over seeds: the experiment engine, significance and simulation."""
