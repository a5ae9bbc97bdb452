"""Where `realm` begins: so little of it that Ctrl-C while the rest is being loaded is said in a word, too."""

from __future__ import annotations

import os
import signal
import sys

from realm.cli.stopping import SIGNALS, exit_code, stopped_by_signals


def main() -> None:
    """Run the command line."""
    code: int | str | None = 0
    for name in ("stdout", "stderr"):  # `>&-` closes it before Python starts
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    try:
        with stopped_by_signals():
            code = _run()
    except KeyboardInterrupt:
        code = _say_stopped()
    for number in SIGNALS:  # all is written: a signal in the last moment changes nothing any more
        signal.signal(number, signal.SIG_IGN)
    sys.exit(code)


def _run() -> int | str | None:
    try:
        from realm.cli.main import main as run

        run()
    except SystemExit as end:
        return end.code
    except BaseException:
        # an interrupted import may end in any error
        if exit_code() is None:
            raise
        return _say_stopped()
    return 0


def _say_stopped() -> int:
    print("stopped.", file=sys.stderr)
    return exit_code() or 130
