"""Run every benchmark, one after the other: `make bench`, or `python -m benchmarks [NAME ...]` for some."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main() -> int:
    every = sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py"))
    chosen = sys.argv[1:] or every
    if unknown := [name for name in chosen if name not in every]:
        print(f"no such benchmark: {', '.join(unknown)}; there are: {', '.join(every)}", file=sys.stderr)
        return 2
    failed = []
    for name in chosen:
        print(f"\n## {name}\n", flush=True)
        if subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode:
            failed.append(name)
    if failed:
        print(f"\nfailed: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
