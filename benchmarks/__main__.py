"""Run benchmarks, one after the other, and keep what they print in `benchmarks/results.md`.

make bench                              # how fast, beside whom: about three hours of one core
make studies                            # how good: what comes out, measured against the truth; two hours
python -m benchmarks NAME ...           # some; the rest of results.md stays as it is
python -m benchmarks NAME ... --quick   # pass flags on (not all know --quick); nothing is kept
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results.md"
GROUPS = {
    "speed": (
        *("training_smollm2", "training_t5", "frozen_layers", "predict", "many_annotators"),
        *("where_time_goes", "aggregation", "crowdlab", "read", "report"),
    ),
    "quality": (
        "crowds_from_labels",
        "worlds",
        "devices",
        "drift",
        "honesty",
        "cleaned_labels",
        "judges",
        "demo_seeds",
        "expertise_update",
        "answers",
    ),
    "promise": ("chance", "sensitivity"),
}
PACKAGES = ("torch", "transformers", "accelerate", "numpy", "pyarrow", "crowd-kit", "cleanlab")


def machine() -> str:
    """What the figures were measured on: no names, no paths."""
    cores = os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        f"{_processor()}, {cores} cores, {memory:.0f} GB of memory, no GPU used. Python {platform.python_version()}, "
        f"{versions}."
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def run(name: str, flags: list[str]) -> tuple[str, bool]:
    """What a benchmark prints, shown as it comes, and whether it met its targets."""
    command = [sys.executable, "-m", f"benchmarks.{name}", *flags]
    printed = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            printed.append(line)
    return "".join(printed).strip(), process.returncode == 0


def read_results() -> dict[str, str]:
    """The sections that results.md holds, by benchmark."""
    if not RESULTS.exists():
        return {}
    _, *parts = RESULTS.read_text(encoding="utf-8").split("\n## ")
    return {part.split("\n", 1)[0]: part.split("\n", 1)[1].strip() for part in parts}


def write_results(sections: dict[str, str]) -> None:
    lines = ["# What the benchmarks printed", ""]
    lines += ["Each section is the output of `python -m benchmarks.NAME`, after the machine it was measured on."]
    lines += ["See [Speed](../docs/speed.md) for what it means."]
    for name in sorted(sections):
        lines += ["", f"## {name}", "", sections[name]]
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> int:
    flags = [word for word in sys.argv[1:] if word.startswith("-")]
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    selected = [name for word in words for name in GROUPS.get(word, (word,))]
    every = [name for names in GROUPS.values() for name in names]
    unknown = [name for name in selected if name not in every]
    if unknown or not selected:
        wrong = f"no such benchmark: {', '.join(unknown)}" if unknown else "which benchmarks?"
        print(f"{wrong}; there are: {', '.join((*GROUPS, *sorted(every)))}", file=sys.stderr)
        return 2
    failed = []
    for name in selected:
        print(f"\n## {name}\n", flush=True)
        printed, passed = run(name, flags)
        if not passed:
            failed.append(name)
        if not flags:
            note = "" if passed else "\n\nIt ended with an error: a target was missed, or it broke."
            body = printed if "\n|" in printed else f"```text\n{printed}\n```"
            write_results({**read_results(), name: f"{machine()}\n\n{body}{note}"})
    if failed:
        print(f"\nfailed: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
