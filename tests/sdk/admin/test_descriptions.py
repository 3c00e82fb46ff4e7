"""A NewTopic can be copied and pickled; ItemResults say what to use if they are taken for a mapping."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest

from kafkawire.sdk.admin.descriptions import ItemResults, NewTopic
from kafkawire.sdk.errors import Closed


def test_defaults() -> None:
    topic = NewTopic("t")
    assert (topic.partitions, topic.replication_factor, topic.configs, topic.assignments) == (-1, -1, {}, {})


@pytest.mark.parametrize("attribute", ["name", "partitions"])
def test_frozen(attribute: str) -> None:
    with pytest.raises(AttributeError):
        setattr(NewTopic("t"), attribute, "u")


@pytest.mark.parametrize(
    "topic",
    [NewTopic("t"), NewTopic("t", 3, configs=MappingProxyType({"retention.ms": "1"}), assignments={0: (1, 2)})],
)
def test_copies(topic: NewTopic) -> None:
    """A process pool pickles its arguments, so a topic must survive pickling too."""
    for copied in (copy.copy(topic), copy.deepcopy(topic), pickle.loads(pickle.dumps(topic))):
        assert type(copied) is NewTopic
        assert copied == topic


RESULTS: ItemResults[str, int] = ItemResults({"a": 1}, {"b": Closed("no")})


def test_results_of_items() -> None:
    values, errors = RESULTS
    assert (values, errors) == (RESULTS.values, RESULTS.errors) == (RESULTS[0], RESULTS[-1]) == RESULTS[:]
    assert RESULTS._replace(errors={}).all() == {"a": 1}
    for copied in (copy.copy(RESULTS), copy.deepcopy(RESULTS)):
        assert (copied.values, [*copied.errors]) == ({"a": 1}, ["b"])
    assert not [name for name in ("get", "items", "keys") if hasattr(RESULTS, name)]


@pytest.mark.parametrize(
    "misled",
    [
        lambda results: results["a"],
        lambda results: "a" in results,
        lambda results: results.items(),
        lambda results: results.keys(),
        lambda results: results.get("a"),
    ],
)
def test_results_that_are_taken_for_a_mapping(misled: Callable[[Any], object]) -> None:
    with pytest.raises(
        (TypeError, AttributeError), match=r"all\(\), which raises the first error, or values and errors"
    ):
        misled(RESULTS)
