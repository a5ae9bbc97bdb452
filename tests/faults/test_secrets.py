"""No token, no variable of the environment and no home folder in anything that is written or printed."""

from __future__ import annotations

import pytest

from tests.forked import start
from tests.tiny import crowd, save_tiny

WORD = b"planted-7f3a"
"""In every secret that is planted, and nowhere else."""
ENVIRONMENT = {
    name: f"hf_{WORD.decode()}-{name.lower()}"
    for name in (
        *("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY"),
        *("GITHUB_TOKEN", "DATABASE_PASSWORD", "SOMETHING_ELSE"),
    )
}


def run(words: list[str], home: str, said: str) -> None:
    """Run a command with the home folder and variables of somebody."""
    import os

    from tests.faults.victim import realm

    os.environ["HOME"] = home
    os.chdir(home)
    realm(words, home, said=said)


@pytest.mark.parametrize("spelled", ["whole", "tilde"])
def test_no_secret_is_written_or_printed(spelled, tmp_path) -> None:
    """The model, the tables and the outputs all lie in the home folder, and are named by their whole path."""
    home = tmp_path / f"home-of-{WORD.decode()}"
    (home / "runs").mkdir(parents=True)
    crowd(30, per_item=2).to_pandas().to_csv(home / "labels.csv", index=False)
    crowd(12, seed=5).to_pandas().to_csv(home / "test.csv", index=False)
    model = save_tiny(home / "model", "bert", layers=2, width=16)
    model = "~/model" if spelled == "tilde" else model
    labels, test, runs = str(home / "labels.csv"), str(home / "test.csv"), home / "runs"
    flags = ["--model", model, "--steps", "4", "--batch-size", "8"]
    more = ["--save-steps", "2", "--train-layers", "1", "--test", test]
    compare = ["compare", labels, "--test", test, *flags, "--methods", "noisy,realm", "--seeds", "1"]
    commands = [
        ["train", labels, *flags, *more, "--output", str(runs / "run")],
        ["predict", str(runs / "run"), test, "--output", str(runs / "answers.csv")],
        ["relabel", str(runs / "run"), "--output", str(runs / "queue.csv")],
        ["report", str(runs / "run"), "--output", str(runs / "page.html")],
        [*compare, "--output", str(runs / "compared")],
        ["evaluate", str(runs / "run"), test],
    ]
    for words in commands[:1] if spelled == "tilde" else commands:
        said = tmp_path / "said"
        process = start(run, words, str(home), str(said), **ENVIRONMENT, REALM_HOME=str(home / "store"))
        process.join(180)
        assert process.exitcode == 0, said.read_text()
        for value in ENVIRONMENT.values():
            assert value not in said.read_text(), words
    kept = [path for folder in (runs, home / "store") for path in folder.rglob("*") if path.is_file()]
    assert len(kept) > (20 if spelled == "tilde" else 30)
    guilty = {str(path.relative_to(home)) for path in kept if WORD in path.read_bytes()}
    assert guilty == set()
