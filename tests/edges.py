"""Record which edges of a state table (`kafkawire.sdk.states`) are taken, for tests that cover every edge."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import TypeVar

import pytest

from kafkawire.sdk.states import Edges

__all__ = ["taken"]

S = TypeVar("S", bound=Enum)


@contextmanager
def taken(edges: Edges[S]) -> Iterator[set[tuple[S, S]]]:
    """Record the edges of a table that any state machine takes inside the `with` block."""
    steps: set[tuple[S, S]] = set()
    follow = Edges.follow

    def noting(self: Edges[S], before: S, after: S) -> S:
        state = follow(self, before, after)
        if self is edges:
            steps.add((before, after))
        return state

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Edges, "follow", noting)
        yield steps
