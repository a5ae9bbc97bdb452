"""Run the notebooks of this folder and store them with their outputs: `make notebooks`.

    python examples/run.py                      # all of them
    python examples/run.py first_steps.ipynb    # one

Each runs in an empty folder of its own, in a fresh kernel, and is stored only if no cell fails. What differs from one
run to the next without meaning anything (progress bars, the kernel's version, times of execution) is left out, so that
a difference in the stored file is a difference in the source or in a result.
"""

from __future__ import annotations

import os
import re
import resource
import sys
import tempfile
import time
from pathlib import Path

import nbclient
import nbformat

FOLDER = Path(__file__).parent
SECONDS = 1800  # of one cell: six times what a whole notebook may take on a quiet machine
BAR = re.compile(r"<div>\s*(<style>.*?</style>)?\s*<progress.*?</div>", re.DOTALL)
PROGRESS = re.compile(r"\d+%\||^cross-fit: |TqdmWarning|import tqdm as notebook_tqdm")
"""Lines of a stream that tell how far something is, or that no widget shows it."""


def execute(notebook: nbformat.NotebookNode, folder: Path) -> nbformat.NotebookNode:
    """Run every cell in a new kernel whose working directory is `folder`; a cell that fails raises."""
    programs = str(Path(sys.executable).parent)  # where `realm` is, for cells such as `!realm check labels.csv`
    env = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "110"}
    resources = {"metadata": {"path": str(folder)}}
    client = nbclient.NotebookClient(
        notebook,
        timeout=SECONDS,
        kernel_name="python3",
        resources=resources,
        record_timing=False,
        coalesce_streams=True,  # so that it does not matter when a stream was flushed
    )
    return client.execute(env=env)


def without_noise(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook without what says nothing: progress bars, timings, the kernel that ran it, random cell ids."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for number, cell in enumerate(notebook.cells, start=1):
        cell["id"], cell["metadata"] = f"cell-{number}", {}
        if cell.cell_type == "code":
            cell["outputs"] = [output for output in map(_cleaned, cell.outputs) if output is not None]
    return notebook


def _cleaned(output: nbformat.NotebookNode) -> nbformat.NotebookNode | None:
    """An output without progress bars; None where nothing else was in it."""
    if (html := output.get("data", {}).get("text/html")) is not None:
        rest = BAR.sub("", html).strip()
        if not rest or (rest != html.strip() and "<td>" not in rest):
            return None  # a bar that was taken away, or a bar over a table without a row
        output["data"]["text/html"] = rest
        output["data"].pop("text/plain", None)  # the same without a picture, or the address of an object
    if output.output_type == "stream":
        lines = [line.rstrip().rsplit("\r", 1)[-1] for line in output["text"].split("\n")]
        output["text"] = "\n".join(line for line in lines if not PROGRESS.search(line))
        if not output["text"].strip():
            return None
    return output


def main(names: list[str]) -> None:
    paths = [FOLDER / name for name in names] or sorted(FOLDER.glob("*.ipynb"))
    for path in paths:
        start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        with tempfile.TemporaryDirectory() as folder:
            notebook = without_noise(execute(nbformat.read(path, as_version=4), Path(folder)))
        nbformat.write(notebook, path)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"{path.name}: {time.monotonic() - start:.0f} s, {cpu:.0f} s of CPU", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
