"""Stories of machines: lists of steps that hypothesis draws, each a name and its arguments, and shrinks when one fails.

`make test` tells the same few each time. `KAFKAWIRE_TEST_EXAMPLES=random` looks for others, and
`KAFKAWIRE_TEST_EFFORT=20` tells twenty times as many.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

__all__ = ["Kinds", "Step", "pauses", "steps", "told"]

#: How many times as many stories are told as `make test` has time for.
EFFORT = int(os.environ.get("KAFKAWIRE_TEST_EFFORT", "1"))

Step = tuple[Any, ...]

#: By name, the arguments of a step.
Kinds = dict[str, tuple[st.SearchStrategy[Any], ...]]


def told(examples: int) -> settings:
    """Return how many stories a test tells."""
    return settings(max_examples=examples * EFFORT, suppress_health_check=list(HealthCheck))


def steps(kinds: Kinds, longest: int) -> st.SearchStrategy[list[Step]]:
    """Return stories of steps of some kinds; a kind that is to come often has several names."""
    return st.lists(st.one_of([st.tuples(st.just(name), *kinds[name]) for name in kinds]), max_size=longest)


def pauses(*durations_ms: int) -> st.SearchStrategy[int]:
    """Return how long to let time pass."""
    return st.sampled_from(durations_ms)
