"""Stories of machines: steps that hypothesis draws, and a new machine beside one that has been through a lot.

A story is a list of steps, each a name and its arguments, so that a failure prints one that can be read, and shrinks to
the steps that matter. `make test` tells the same few each time. `KAFKAWIRE_TEST_EXAMPLES=random` looks for others, and
`KAFKAWIRE_TEST_EFFORT=20` tells twenty times as many; pass `--timeout 0` to pytest then.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Protocol

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

__all__ = ["NOTHING", "Scene", "Step", "act_alike", "pauses", "steps", "told"]

#: How many times as many stories are told as `make test` has time for.
EFFORT = int(os.environ.get("KAFKAWIRE_TEST_EFFORT", "1"))

Step = tuple[Any, ...]

#: A step that makes a story shorter.
NOTHING: Step = ("nothing",)


class Scene(Protocol):
    """A machine in its world."""

    def act(self, step: Step) -> None:
        """Do what a step says, then check what must always hold."""
        ...

    def news(self) -> tuple[object, ...]:
        """Return all that could be seen of the machine since the last call, kind by kind."""
        ...


def told(examples: int) -> settings:
    """Return how many stories a test tells."""
    long = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example)
    return settings(max_examples=examples * EFFORT, suppress_health_check=long)


def steps(kinds: dict[str, tuple[st.SearchStrategy[Any], ...]], longest: int) -> st.SearchStrategy[list[Step]]:
    """Return stories of steps of some kinds, by name; a kind that is to come often has several names."""
    # Of itself hypothesis draws five or so; a shorter story, which is easier to read, has steps that do nothing.
    kind = st.one_of(st.just(NOTHING), *[st.tuples(st.just(name), *kinds[name]) for name in kinds])
    return st.lists(kind, min_size=longest // 2, max_size=longest)


def pauses(*durations_ms: int) -> st.SearchStrategy[int]:
    """Return how long to let time pass."""
    return st.sampled_from(durations_ms)


def act_alike(old: Scene, new: Scene, story: Iterable[Step]) -> None:
    """Have both do the same: what can be seen of them is the same."""
    _compare("before the first step", old, new)
    for step in story:
        old.act(step)
        new.act(step)
        _compare(step, old, new)


def _compare(when: object, old: Scene, new: Scene) -> None:
    for lived, fresh in zip(old.news(), new.news(), strict=True):
        assert lived == fresh, f"after {when}, the one that has lived: {lived}\na new one: {fresh}"
