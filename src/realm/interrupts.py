"""What is made is removed again, even if Ctrl-C comes in between.

Python raises a signal's `KeyboardInterrupt` between any two steps of the main thread: also between making a file and
the `try` that would remove it. No order of statements helps. The signals are held back there instead.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

Made = TypeVar("Made")
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_Handler = Callable[[int, FrameType | None], object]


@contextmanager
def removed_at_the_end(make: Callable[[], Made], remove: Callable[[Made], object]) -> Iterator[Made]:
    """What `make` returns, and `remove` of it when the block ends, however it ends.

    Signals that a function of Python's handles (those of Ctrl-C, and those of `kill` in our command line) wait while
    `make` and `remove` are at work, whoever installed the function. `make` must leave nothing behind if it fails.
    """
    signals = _Signals()
    try:
        signals.hold()
        made = make()
        try:
            try:
                signals.deliver()  # not before: what comes while it is made ends here, where it is removed
                yield made
            finally:
                signals.hold()
        finally:  # of its own, so that a signal right before they are held back does not skip it
            remove(made)
    finally:
        signals.deliver()


class _Signals:
    """Signals of the main thread that can be held back; in other threads, where none arrives, there is nothing to do.

    A handler that could not be put back, because a signal came at that very moment, passes on what it gets.
    """

    def __init__(self) -> None:
        self._handlers: dict[int, _Handler] = {}
        self._waiting: list[tuple[int, FrameType | None]] = []
        self._holding = False

    def hold(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self._holding = True
        for number in _SIGNALS:
            handler = signal.getsignal(number)
            if callable(handler) and handler != self._receive:  # the system's own actions are no functions
                self._handlers[number] = handler
                signal.signal(number, self._receive)

    def deliver(self) -> None:
        """Put the handlers back, and call them for what came meanwhile."""
        self._holding = False
        for number, handler in self._handlers.items():
            if signal.getsignal(number) == self._receive:
                signal.signal(number, handler)
        while self._waiting:
            number, frame = self._waiting.pop(0)
            self._handlers[number](number, frame)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self._holding:
            self._waiting.append((number, frame))
        else:
            self._handlers[number](number, frame)
