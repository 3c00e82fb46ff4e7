"""Interrupt a call at a given instruction, as a signal handler, a finalizer or another thread might."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Collection
from types import FrameType
from typing import Any

__all__ = ["interrupted_at"]


def interrupted_at(
    places: Collection[int], call: Callable[[], object], handler: Callable[[], object], files: tuple[str, ...] = ("",)
) -> bool:
    """Make a call, and run the handler at some of its instructions; return whether the call reached the first of them.

    Args:
        places: the numbers of the instructions, from 0.
        call: the function whose instructions are counted, along with those of its callees on this thread.
        handler: the function to run, which is not traced.
        files: path suffixes of the files whose instructions are counted.
    """
    count, last = 0, max(places)

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.endswith(files):
            return None
        frame.f_trace = trace  # without this, Python 3.13 does not trace the rest of a new frame
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            if count in places:
                sys.settrace(None)
                handler()
                if count < last:
                    sys.settrace(trace)
            count += 1
        return trace if count <= last else None

    former = sys.gettrace()
    gc.disable()  # otherwise, finalizers of garbage from earlier tests would be counted
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(former)
        gc.enable()
    return count > min(places)
