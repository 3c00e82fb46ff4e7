"""Stories are random sequences of steps for a state machine; they compare a used machine with a new one.

A step is a name and its arguments, so a failing story is readable, and hypothesis shrinks it to the steps that matter.
Every test run uses the same stories, and `make test` runs a third of them. `KAFKAWIRE_TEST_EXAMPLES=random` draws
others, and `KAFKAWIRE_TEST_EFFORT=20` runs twenty times as many, which needs `--timeout 0` as an argument to pytest.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from math import ceil
from typing import Any, Protocol

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.thorough import IS_SAMPLE

__all__ = ["Kinds", "Scene", "Step", "assert_alike", "run_stories", "steps"]

#: The factor for the number of stories. `make test` has time for the first third.
EFFORT = float(os.environ.get("KAFKAWIRE_TEST_EFFORT", "0.34" if IS_SAMPLE else "1"))

#: A name and its arguments.
Step = tuple[Any, ...]

#: The arguments of each kind of step, keyed by name.
Kinds = dict[str, tuple[st.SearchStrategy[Any], ...]]


class Scene(Protocol):
    """A machine and a simulation of its surroundings."""

    def act(self, step: Step) -> None:
        """Take a step, then check the invariants."""
        ...

    def news(self) -> tuple[object, ...]:
        """Return the machine's output since the last call, one item for each kind of output."""
        ...


def run_stories(count: int) -> settings:
    """Return the settings for a test that runs `count` stories, multiplied by `EFFORT`."""
    long = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example)
    return settings(max_examples=ceil(count * EFFORT), suppress_health_check=long)


def steps(kinds: Kinds, longest: int) -> st.SearchStrategy[list[Step]]:
    """Return a strategy for stories of up to `longest` steps.

    A kind of step is drawn more often if it has several names, such as "send" and "send more".
    """
    # By default, hypothesis draws about five steps. A minimum length makes lists longer, and a None in a list makes its
    # story shorter.
    step = st.one_of(st.none(), *[st.tuples(st.just(name), *kinds[name]) for name in kinds])
    drawn = st.lists(step, min_size=longest // 2, max_size=longest)
    return drawn.map(lambda story: [step for step in story if step is not None])


def assert_alike(old: Scene, new: Scene, story: Iterable[Step]) -> None:
    """Assert that a used machine and a new one give the same output after each step of a story."""
    _compare("before the first step", old, new)
    for step in story:
        old.act(step)
        new.act(step)
        _compare(f"after {step}", old, new)


def _compare(when: str, old: Scene, new: Scene) -> None:
    for used, fresh in zip(old.news(), new.news(), strict=True):
        assert used == fresh, f"{when}, the used machine: {used}\nthe new one: {fresh}"
