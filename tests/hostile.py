"""Objects that lie, change, raise, or run code at the wrong moment; none may harm any engine.

Every special method calls a `Fuse`, which can run test code (to mutate the object in use, for instance) or raise at any
one of these calls. Buffers also work on Python 3.11, where classes do not support `__buffer__` yet.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from typing import Any

__all__ = [
    "Equal",
    "Fuse",
    "HostileBuffer",
    "LyingList",
    "LyingSequence",
    "LyingText",
    "LyingTuple",
    "Number",
    "nothing",
    "raised_at_every_call",
]


def nothing() -> None:
    """Do nothing; this is the action of a fuse without test code."""


class Fuse:
    """A callable that every special method of a hostile object calls first.

    Args:
        action: called each time.
        error: the error to raise at call number `at`, after the action.
        at: the number of that call, counted from 0.
    """

    def __init__(self, action: Callable[[], object] = nothing, error: BaseException | None = None, at: int = 0) -> None:
        self.action = action
        self.error = error
        self.at = at
        self.calls = 0

    def burn(self) -> None:
        """Count the call, run the action, and raise the error if this is the call numbered `at`."""
        call, self.calls = self.calls, self.calls + 1
        self.action()
        if self.error is not None and call == self.at:
            raise self.error


def raised_at_every_call(run: Callable[[Fuse], object], error: type[BaseException], most: int = 50) -> Iterator[object]:
    """Run a function with a fuse that blows at the first call, then at the second, and so on until no call is left.

    Args:
        run: a function that takes the fuse, puts it into hostile objects, and uses them.
        error: the error to raise.
        most: the number of runs after which the test itself is assumed to be at fault.

    Yields:
        The error that each run raised, or None.
    """
    for at in range(most):
        fuse = Fuse(error=error(f"call {at}"), at=at)
        try:
            run(fuse)
        except BaseException as caught:
            yield caught
        else:
            yield None
        if fuse.calls <= at:
            return
    raise AssertionError(f"more than {most} calls")


class HostileBuffer:
    """A buffer with different contents at each access.

    Args:
        contents: the contents at the first access, the second, and so on; the last one is repeated.
        fuse: called at each access.
    """

    def __init__(self, *contents: bytes, fuse: Fuse | None = None) -> None:
        self.contents = contents
        self.fuse = fuse or Fuse()
        self.looks = 0

    def __buffer__(self, flags: int, /) -> memoryview:
        self.fuse.burn()
        content = self.contents[min(self.looks, len(self.contents) - 1)]
        self.looks += 1
        return memoryview(bytearray(content))

    def __len__(self) -> int:
        return len(self.contents[0])


class LyingSequence:
    """A sequence whose length, elements and iteration do not agree."""

    def __init__(self, claimed: int, elements: list[Any], fuse: Fuse | None = None) -> None:
        self.claimed = claimed
        self.elements = elements
        self.fuse = fuse or Fuse()

    def __len__(self) -> int:
        self.fuse.burn()
        return self.claimed

    def __length_hint__(self) -> int:
        self.fuse.burn()
        return self.claimed

    def __getitem__(self, index: int) -> Any:
        self.fuse.burn()
        return self.elements[index]

    def __iter__(self) -> Iterator[Any]:
        self.fuse.burn()
        for element in self.elements:
            yield element
            self.fuse.burn()


class LyingList(list[Any]):
    """A list that claims to have `claimed` elements, but iterates over `others`."""

    claimed = 0
    others: tuple[Any, ...] = ()

    def __len__(self) -> int:
        return self.claimed

    def __iter__(self) -> Iterator[Any]:
        return iter(self.others)


class LyingTuple(tuple[Any, ...]):
    """A tuple that claims to have `claimed` elements, but iterates over `others`."""

    claimed = 0
    others: tuple[Any, ...] = ()

    def __len__(self) -> int:
        return self.claimed

    def __iter__(self) -> Iterator[Any]:
        return iter(self.others)


class LyingText(str):
    """A string whose methods contradict its characters."""

    __slots__ = ()

    def __len__(self) -> int:
        return 1_000_000

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        return b"x" * 40_000


class Number:
    """A number that is available through `__index__`, `__int__` and `__float__`."""

    def __init__(self, value: int, fuse: Fuse | None = None) -> None:
        self.value = value
        self.fuse = fuse or Fuse()

    def __index__(self) -> int:
        self.fuse.burn()
        return self.value

    def __int__(self) -> int:
        self.fuse.burn()
        return self.value

    def __float__(self) -> float:
        self.fuse.burn()
        return float(self.value)


class Equal:
    """An object that claims to equal everything or nothing."""

    def __init__(self, answer: object, fuse: Fuse | None = None) -> None:
        self.answer = answer
        self.fuse = fuse or Fuse()

    def __eq__(self, other: object) -> Any:
        self.fuse.burn()
        return self.answer

    def __hash__(self) -> int:
        self.fuse.burn()
        return 0


#: The offset at which a type keeps the address of its buffer procedures, on 64-bit machines.
_AS_BUFFER_OFFSET = 160

#: Callbacks that must be kept alive here, because C has only their addresses.
_CALLBACKS: list[object] = []


def _export(cls: type[HostileBuffer]) -> None:
    """Make a class's `__buffer__` visible to C, as Python itself does from 3.12 onwards.

    An error in `__buffer__` cannot pass through such a callback, so tests of such errors need Python 3.12.
    """
    get_buffer = ctypes.pythonapi.PyObject_GetBuffer
    get_buffer.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int]

    def export(self: Any, view: int, flags: int) -> int:
        return int(get_buffer(self.__buffer__(flags), view, flags))

    callback = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)(export)
    procedures = ctypes.c_void_p.from_address(id(cls) + _AS_BUFFER_OFFSET).value
    assert procedures is not None
    ctypes.c_void_p.from_address(procedures).value = ctypes.cast(callback, ctypes.c_void_p).value
    _CALLBACKS.append(callback)


if sys.version_info < (3, 12):
    _export(HostileBuffer)
