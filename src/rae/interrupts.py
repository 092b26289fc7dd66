"""Interrupts: Ctrl-C, termination and hang-up end a command wherever it is, once, and none is lost.

Python raises KeyboardInterrupt wherever the main thread happens to be. In the middle of an import that is lost (some
packages swallow every exception while they load) or comes out as another error, and in a callback Python itself drops
it. So while a module is being imported the exception waits, and it is raised again until it is on its way out; once it
is, further signals do not disturb those who clean up.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

AGAIN = 0.05  # seconds until it is tried again
_WORDS = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "hung up"}
_SIGNALS = {getattr(signal, name): word for name, word in _WORDS.items() if hasattr(signal, name)}  # Windows: two


class Interrupted(KeyboardInterrupt):
    """A signal that ends the command; `code` is what a shell reports for it."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__(f"{_SIGNALS[number]}: no file was left half-written")
        self.code = 128 + int(number)


class Interrupts:
    """The signals of one block: the first is raised in the main thread until it is handled."""

    def __init__(self, opener: FrameType) -> None:
        self.received: Interrupted | None = None
        self.settled = False
        self._ended, self._sending = threading.Event(), threading.Lock()
        self._opener = opener  # the frame that opened the block: an import that this frame is in does not count

    def settle(self) -> None:
        """Take no further signal: the command is over, or ends in its own way."""
        self.settled = True
        with self._sending:  # nothing is sent any more when the signals have their own effect again
            self._ended.set()

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Raise the first signal, now or as soon as nothing is being imported."""
        if self.settled:
            return
        if self.received is None:
            self.received = Interrupted(number)
            threading.Thread(target=self._repeat, args=(number,), daemon=True).start()
        if not self._imports(frame) and not _is_handled(self.received):
            raise self.received

    def _repeat(self, number: int) -> None:
        """Send the signal again, so that it is raised again where it was swallowed or had to wait."""
        while not self._ended.wait(AGAIN):
            with self._sending:
                if not self._ended.is_set():
                    self._send(number)

    def _send(self, number: int) -> None:
        if hasattr(signal, "pthread_kill"):
            signal.pthread_kill(threading.main_thread().ident or 0, number)
        else:  # pragma: no cover  # Windows
            import _thread

            _thread.interrupt_main(signal.Signals(number))

    def _imports(self, frame: FrameType | None) -> bool:
        while frame is not None and frame is not self._opener:
            if frame.f_code.co_filename.startswith("<frozen importlib"):
                return True
            frame = frame.f_back
        return False


def _is_handled(raised: BaseException) -> bool:
    """Whether the main thread is in an except or finally block because of this exception."""
    waiting, visited = [sys.exception()], set[int]()
    while waiting:
        error = waiting.pop()
        if error is raised:
            return True
        if error is not None and id(error) not in visited:
            visited.add(id(error))
            waiting += [error.__context__, error.__cause__]
    return False


_active: Interrupts | None = None


@contextlib.contextmanager
def _install(interrupts: Interrupts) -> Iterator[None]:
    """Handle the signals that have their default effect; those with a handler, or that are ignored, stay."""
    global _active
    defaults = (signal.SIG_DFL, signal.default_int_handler)
    before: dict[int, Any] = {n: signal.getsignal(n) for n in _SIGNALS if signal.getsignal(n) in defaults}
    _active = interrupts
    try:
        for number in before:
            signal.signal(number, interrupts.handle)
        yield
    finally:
        interrupts.settle()
        for number, handler in before.items():
            signal.signal(number, handler)
        _active = None


@contextlib.contextmanager
def interruptible() -> Iterator[Interrupts]:
    """Raise `Interrupted` in this block when a signal asks the command to end; a block inside another is part of it."""
    if _active is not None:
        yield _active
        return
    interrupts = Interrupts(sys._getframe(2))  # past contextlib's
    if threading.current_thread() is not threading.main_thread():  # in others Python sets no handler
        yield interrupts
        return
    with _install(interrupts):
        yield interrupts


def settle() -> None:
    """In a command that ends in its own way when it is interrupted: take no further signal."""
    if _active is not None:
        _active.settle()
