"""Interrupt a block at one of its calls, as Ctrl-C might."""

from __future__ import annotations

import gc
import signal
import sys
from types import FrameType

__all__ = ["Interrupting"]


class Interrupting:
    """Interrupt the block at call number `at`, counted from 0, among the calls to this project's functions."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.struck = False
        # This is kept alive: otherwise, an interrupt in a finalizer that runs while Python creates a traced call's
        # frame would free it too early.
        self._trace = self._called

    def __enter__(self) -> Interrupting:
        gc.disable()  # otherwise, finalizers of garbage from earlier tests would be interrupted
        sys.settrace(self._trace)
        return self

    def __exit__(self, *of: object) -> None:
        sys.settrace(None)
        gc.enable()

    def _called(self, frame: FrameType, event: str, argument: object) -> None:
        if "kafkawire/sdk/" in frame.f_code.co_filename:
            if not self.left:
                sys.settrace(None)
                self.struck = True
                signal.raise_signal(signal.SIGINT)
            self.left -= 1
