"""Handle a client that is dropped without `close`: warn, naming the line that created it, and end it.

The parts that drive a client do not refer to the client object, so it is garbage-collected once the application has
dropped it. Its finalizer can run on any thread and between any two bytecodes, so it takes no lock and leaves the rest
to the event loop.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, SupportsIndex, TypeVar
from weakref import WeakMethod

__all__ = ["Place", "caller", "reduce_unstarted", "warn_unclosed", "weakly"]

Given = ParamSpec("Given")
Result = TypeVar("Result")

#: Packages whose frames do not belong to the application; `typing` calls the constructor of `Consumer[str, str]`.
_BETWEEN = ("kafkawire", "typing")


class Place(NamedTuple):
    """A line of a program."""

    path: str
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


def caller() -> Place:
    """Return the line of the application from which this was called, by walking up a few frames."""
    frame = sys._getframe(1)
    while frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN and frame.f_back is not None:
        frame = frame.f_back
    return Place(frame.f_code.co_filename, frame.f_lineno)


def warn_unclosed(client: object, name: str, made_at: Place, consequence: str) -> None:
    """Warn about a client that is being dropped.

    Args:
        client: the client; with tracemalloc, Python shows where it was allocated.
        name: its kind and client id.
        made_at: the line that created it.
        consequence: what happens to its work.
    """
    text = f"unclosed {name}, created at {made_at}: {consequence}; close it, or use it in a `with` block"
    warnings.warn(text, ResourceWarning, stacklevel=3, source=client)


def reduce_unstarted(kind: str, started: str) -> Callable[[Any, SupportsIndex], str | tuple[Any, ...]]:
    """Return the `__reduce_ex__` of a client, which prevents a client in use from being copied or pickled.

    If two objects shared the parts that drive a client, the first one dropped would end them for both.

    Args:
        kind: the kind of client.
        started: the attribute that holds the parts that drive it; None before `start`.
    """

    def reduce(client: Any, protocol: SupportsIndex, /) -> str | tuple[Any, ...]:
        if getattr(client, started) is not None:
            raise TypeError(f"a {kind} in use cannot be copied or pickled; create another where it is needed")
        return object.__reduce_ex__(client, protocol)

    return reduce


def weakly(method: Callable[Given, Result], otherwise: Result) -> Callable[Given, Result]:
    """Return a function that calls a bound method while its object is alive, and returns `otherwise` afterwards."""
    reference = WeakMethod(method)

    def call(*arguments: Given.args, **named: Given.kwargs) -> Result:
        found = reference()
        return otherwise if found is None else found(*arguments, **named)

    return call
