"""Stopped by a signal: Ctrl-C and a polite `kill` end a command alike, whatever it is doing; nothing is half-written.

Small and without any other module of ours, so that it is in force before the rest is loaded.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Ctrl-C, `kill` and a terminal that was closed."""
AGAIN_AFTER = 0.01
"""Seconds until an interrupt that was dropped is delivered again: what dropped it is over by then."""
_received: list[int] = []


def exit_code() -> int | None:
    """128 and the number of the signal that stopped the command, as shells count; None where none did."""
    return 128 + _received[0] if _received else None


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Let signals end what is inside as Ctrl-C does: by a `KeyboardInterrupt` in the main thread.

    A signal that was to be ignored stays so (`nohup`). Of several processes that a launcher started each keeps what
    it has: one that waits for the others in a collective operation would hear of a signal only when they are gone.
    """
    if threading.current_thread() is not threading.main_thread() or int(os.environ.get("WORLD_SIZE") or 1) > 1:
        yield
        return
    _received.clear()
    before = {number: signal.getsignal(number) for number in SIGNALS}
    hook = sys.unraisablehook
    for number, handler in before.items():
        if handler != signal.SIG_IGN:
            signal.signal(number, _stop)
    sys.unraisablehook = _stop_again
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(number: int, frame: FrameType | None) -> None:
    _received.append(number)
    raise KeyboardInterrupt


def _stop_again(unraisable: Any) -> None:
    """An interrupt that arrives while an object is being destroyed is dropped by Python: have it delivered again."""
    if unraisable.exc_type is KeyboardInterrupt:
        # From another thread and a moment later: at once it would be raised in here, and be dropped as well. A plain
        # thread, because `threading` has locks that may be held just now.
        _thread.start_new_thread(_interrupt_soon, ())
    else:
        sys.__unraisablehook__(unraisable)


def _interrupt_soon() -> None:
    time.sleep(AGAIN_AFTER)
    _thread.interrupt_main()
