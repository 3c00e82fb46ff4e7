"""A NewTopic defaults to the broker's settings, cannot be changed by accident, and can be copied and pickled."""

from __future__ import annotations

import copy
import pickle
from types import MappingProxyType

import pytest

from kafkawire.sdk.admin.descriptions import NewTopic


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
