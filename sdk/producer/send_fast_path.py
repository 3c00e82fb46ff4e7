"""The fast path of `send`: the engine's function stands in for a producer's method unless the method was replaced.

Passing the arguments on would cost as much as buffering the record, so in a started producer, the engine's function is
an instance attribute. That attribute would hide a replacement for the method: a derived class's method, or a function
that a tracer or `mock.patch.object` puts into the class, possibly later. Therefore producer classes notice when their
`send` is set, and live producers then choose again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

from kafkawire.sdk.client.method_hints import HintingClass

__all__ = ["ProducerClass", "SendFastPath", "fast_path_of"]

#: The fast paths of live producers, keyed by the producer's identity, since a derived class may define `__eq__` without
#: `__hash__`.
_alive: WeakValueDictionary[int, SendFastPath] = WeakValueDictionary()


class ProducerClass(HintingClass):
    """The metaclass of producers, which notices when `send` is replaced."""

    def __setattr__(cls, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name == "send":
            _choose()

    def __delattr__(cls, name: str) -> None:
        super().__delattr__(name)
        if name == "send":
            _choose()


class SendFastPath:
    """The fast path of one producer, which holds this object.

    Args:
        producer: an object with a `send` method.
        method: the original `send` function of its class.
        target: returns an equivalent function; None if there is none.
    """

    def __init__(self, producer: Any, method: object, target: Callable[[], Callable[..., Any] | None]) -> None:
        self._attributes = vars(producer)
        self._class = type(producer)
        self._method = method
        self._target = target
        self._chosen: Callable[..., Any] | None = None
        _alive[id(self)] = self
        self.choose()

    @property
    def chosen(self) -> Callable[..., Any] | None:
        """The function that is called instead of the method; None if the method is called."""
        return self._chosen if self._chosen is self._attributes.get("send") else None

    def choose(self) -> None:
        """Set or remove the fast path; a `send` set on the producer itself stays in place."""
        if self._attributes.get("send") is not self._chosen:
            return
        target = self._target() if self._class.send is self._method else None
        self._attributes.pop("send", None)
        self._chosen = target
        if target is not None:
            self._attributes["send"] = target


def fast_path_of(producer: object) -> Callable[..., Any] | None:
    """Return the function that is called instead of a producer's method; None if the method is called."""
    fast_path = vars(producer).get("_fast_path")
    return fast_path.chosen if isinstance(fast_path, SendFastPath) else None


def _choose() -> None:
    for fast_path in list(_alive.values()):
        fast_path.choose()
