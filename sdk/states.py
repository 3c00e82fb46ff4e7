"""State machines as transition tables: the states that may follow each state, and the events that lead to them.

A machine declares its edges once, next to its states, and takes every step through `Edges.follow`, which rejects any
other step. `tools/states.py` draws the tables in docs/states.md.

A rejected step is a bug in the machine, never caused by a peer. Therefore its error is not a `KafkaWireError`: it ends
a client, while a broker logs it and responds with UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final, Generic, TypeVar

__all__ = ["Edges", "RefusedEdge"]

S = TypeVar("S", bound=Enum)


class RefusedEdge(RuntimeError):
    """A state machine was about to take a step that is not in its table."""


class Edges(Generic[S]):
    """The edges of one kind of machine.

    Args:
        machine: the owner of the states, such as "a transaction of a producer"; for errors.
        first: the states in which a machine can begin.
        edges: for each state, the states that may follow it, each with the event that leads to it. Final states are
            left out.
        from_any: the states that may follow any state, including themselves, each with the event that leads to it.
        is_derived: whether the state is computed from other facts on demand, without explicit steps; the tests check
            such a machine against its table.
        error: the class of the error for a rejected step, which is not `RefusedEdge` if a caller takes the steps.
    """

    def __init__(
        self,
        machine: str,
        first: tuple[S, ...],
        edges: Mapping[S, Mapping[S, str]],
        *,
        from_any: Mapping[S, str] | None = None,
        is_derived: bool = False,
        error: type[Exception] = RefusedEdge,
    ) -> None:
        self.machine: Final = machine
        self.first: Final = first
        self.edges: Final = edges
        self.from_any: Final = from_any or {}
        self.is_derived: Final = is_derived
        self._error = error
        self._after = {state: {**edges.get(state, {}), **self.from_any} for state in type(first[0])}

    def follow(self, before: S, after: S) -> S:
        """Return the state that follows another.

        Args:
            before: the current state.
            after: the next one.

        Raises:
            RefusedEdge: the state may not follow; a machine can raise another error.
        """
        if after not in self._after[before]:
            follows = ", ".join(state.name for state in self._after[before]) or "nothing"
            raise self._error(
                f"{self.machine} cannot become {after.name} while it is {before.name}; {follows} may follow"
            )
        return after

    def __iter__(self) -> Iterator[tuple[S, S]]:
        """Yield each edge; an edge from every state is yielded once per state."""
        for before, follows in self._after.items():
            for after in follows:
                yield before, after
