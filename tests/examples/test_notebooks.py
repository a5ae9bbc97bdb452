"""The notebooks of `examples/`: stored with the outputs of a run without errors, and (slow) run again."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.contracts.commands import all_flags
from tests.contracts.modules import ROOT
from tests.contracts.test_public_names import notebook_code

FOLDER = ROOT / "examples"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
NAMES = ["first_steps", "judges", "one_label", "own_channel", "relabelling", "transformers_and_hub"]
MACHINE = re.compile(r"(?<![\w.])/(?:home|root|tmp|Users|usr|opt|var|mnt|work)/|[A-Z]:\\\\|site-packages|\.venv")
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells(path: Path, kind: str) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == kind]


def runner() -> ModuleType:
    """`examples/run.py`, which stores the notebooks."""
    pytest.importorskip("nbclient", reason="nbclient is not installed (pip install nbclient ipykernel)")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed (pip install nbclient ipykernel)")
    specification = importlib.util.spec_from_file_location("run_notebooks", FOLDER / "run.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


# -------------------------------------------------------------------- as they are stored


def test_all_notebooks_are_there_and_listed() -> None:
    assert [path.stem for path in NOTEBOOKS] == NAMES
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"\]\((\w+)\.ipynb\)", text)) == NAMES


@each_notebook
def test_it_is_a_valid_notebook(path: Path) -> None:
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed (pip install nbclient)")
    nbformat.validate(nbformat.read(path, as_version=4))


@each_notebook
def test_it_was_stored_after_a_whole_run_without_errors(path: Path) -> None:
    code = cells(path, "code")
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert len(outputs) > 3
    assert {output["output_type"] for output in outputs} <= {"stream", "execute_result", "display_data"}


@each_notebook
def test_it_holds_no_path_of_a_machine_and_no_progress(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert MACHINE.findall(text) == []
    assert "<progress" not in text
    assert all(cell["metadata"] == {} for cell in json.loads(text)["cells"])


def test_a_path_of_a_machine_is_seen() -> None:
    for text in ("/home/me/x", "in /tmp/y", "lib/site-packages/tqdm", '"/root/.cache"', "C:\\\\Users"):
        assert MACHINE.search(text), text
    for text in ("runs/first_steps/model", "https://example.org/home/x", "and/or", "../docs/tmp.md"):
        assert not MACHINE.search(text), text


@each_notebook
def test_its_code_compiles_and_its_claims_are_asserted(path: Path) -> None:
    source = notebook_code(path)
    compile(source, path.name, "exec")
    assert len(re.findall(r"^ *assert ", source, re.MULTILINE)) >= 3


@each_notebook
def test_its_commands_and_its_text_name_flags_that_there_are(path: Path) -> None:
    flags = all_flags()
    sources = ["".join(cell["source"]) for kind in ("code", "markdown") for cell in cells(path, kind)]
    assert {flag for source in sources for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]*", source)} <= flags
    commands = [line for source in sources for line in source.splitlines() if line.startswith("!")]
    assert all(shlex.split(line)[0] == "!realm" for line in commands)


@each_notebook
def test_its_links_lead_somewhere(path: Path) -> None:
    for cell in cells(path, "markdown"):
        for link in re.findall(r"\]\(([^)#\s]+)", "".join(cell["source"])):
            if not re.match(r"\w+:", link):
                assert (FOLDER / link).exists(), f"{path.name}: {link} is not there"


@each_notebook
def test_it_says_what_is_learned_how_long_it_takes_and_what_is_made_up(path: Path) -> None:
    text = "\n".join("".join(cell["source"]) for cell in cells(path, "markdown"))
    top = text.split("\n## ")[0]
    assert "In this notebook you" in top
    assert "on two cores" in top
    assert re.search(r"\*\*(simulated|[^*]*made up)\*\*", text)


# -------------------------------------------------------------------- how they are stored


def test_noise_is_left_out_and_results_are_kept() -> None:
    run = runner()
    bar = "<div><style>x</style><progress value='9' max='9'></progress>[9/9 00:01, Epoch 3/3]</div>"
    table = "<table><tr><th>Step</th></tr><tr><td>9</td></tr></table>"
    nothing = "<table><tr><th>Step</th></tr></table>"

    def cleaned(html: str) -> Any:
        return run._cleaned(display(html))

    assert cleaned(bar + nothing) is None
    assert cleaned("") is None
    assert cleaned(nothing)["data"] == {"text/html": nothing}
    assert cleaned(bar + table)["data"] == {"text/html": table}
    assert cleaned(table)["data"] == {"text/html": table}
    assert run._cleaned(stream("cross-fit: 3 folds to train, about 9 s\n")) is None
    assert run._cleaned(stream("a\r 10%|█  | 1/9\na warning\n"))["text"] == "a warning\n"
    assert run._cleaned(stream("50% are right\n"))["text"] == "50% are right\n"


def test_a_notebook_whose_cell_fails_is_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = runner()
    nbformat = sys.modules["nbformat"]
    monkeypatch.setattr(run, "FOLDER", tmp_path)
    for name, source in (("good", "1 + 1"), ("bad", "assert 1 + 1 == 3")):
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
        nbformat.write(notebook, tmp_path / f"{name}.ipynb")
    before = (tmp_path / "bad.ipynb").read_bytes()
    run.main(["good.ipynb"])
    assert cells(tmp_path / "good.ipynb", "code")[0]["outputs"][0]["data"] == {"text/plain": ["2"]}
    with pytest.raises(Exception, match="AssertionError"):
        run.main(["bad.ipynb"])
    assert (tmp_path / "bad.ipynb").read_bytes() == before


def display(html: str) -> Any:
    nbformat = sys.modules["nbformat"]
    return nbformat.v4.new_output("display_data", data={"text/html": html, "text/plain": "<IPython object>"})


def stream(text: str) -> Any:
    nbformat = sys.modules["nbformat"]
    return nbformat.v4.new_output("stream", name="stderr", text=text)


# -------------------------------------------------------------------- run again


@pytest.mark.slow
@each_notebook
def test_it_runs_and_its_claims_hold(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder, with the models of the user's own store; a failing `assert` of a cell raises."""
    run = runner()
    nbformat = sys.modules["nbformat"]
    monkeypatch.delenv("REALM_HOME")
    notebook = run.without_noise(run.execute(nbformat.read(path, as_version=4), tmp_path))
    nbformat.validate(notebook)
    assert MACHINE.findall(nbformat.writes(notebook)) == []
