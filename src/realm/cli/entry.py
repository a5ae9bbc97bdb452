"""Where `realm` begins: so little of it that Ctrl-C while the rest is being loaded is said in a word, too."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    try:
        from realm.cli.main import main as run

        run()
    except KeyboardInterrupt:
        print("stopped.", file=sys.stderr)
        sys.exit(130)
