"""CivilComments: is a comment toxic? 24 LLM judges of uneven quality and strong habits (the panel of CARE, 2024).

Not a set of the paper: it is here because its annotators are judge models. Published as a table with a column for each
judge, `panel.csv` (item, text, gold, then the judges; blank where a judge gave no verdict), and `test.csv` with gold.
"""

from __future__ import annotations

from pathlib import Path

from realm import RealmError
from realm.lab.datasets.base import MIN_ANNOTATIONS, Benchmark, SetFolder, build_pair, not_on_hub, read_table

NAME = "civilcomments"
COLUMNS = ["item", "text", "gold"]


def load_civilcomments(folder: Path | None, offline: bool) -> Benchmark:
    """Load it from a folder: the hub holds no copy with the judges."""
    if folder is None:
        raise not_on_hub(NAME, "panel.csv and test.csv")
    panel, test_file = SetFolder.of(NAME, folder, "civilcomments_judges").pair(["panel.csv"], ["test.csv"])
    wide = read_table(panel)
    if missing := [name for name in COLUMNS if name not in wide.columns]:
        raise RealmError(f"{panel}: no column {', '.join(missing)}. There are: {', '.join(wide.columns)}.")
    verdicts = wide.melt(id_vars=COLUMNS, var_name="annotator", value_name="label")
    verdicts = verdicts[verdicts["label"] != ""]
    train, test = build_pair(verdicts, read_table(test_file, COLUMNS), source=str(panel))
    return Benchmark(NAME, train, test, simulated=False, min_annotations=MIN_ANNOTATIONS)
