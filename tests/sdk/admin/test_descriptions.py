"""A new topic takes the broker's defaults unless told otherwise, cannot be changed by accident, and travels."""

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
    """Copies for another process, too, as a process pool makes of arguments."""
    for copied in (copy.copy(topic), copy.deepcopy(topic), pickle.loads(pickle.dumps(topic))):
        assert type(copied) is NewTopic
        assert copied == topic
