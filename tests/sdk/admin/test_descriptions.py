"""A new topic takes the broker's defaults unless told otherwise, and cannot be changed by accident."""

from __future__ import annotations

import pytest

from kafkawire.sdk.admin.descriptions import NewTopic


def test_defaults() -> None:
    topic = NewTopic("t")
    assert (topic.partitions, topic.replication_factor, topic.configs, topic.assignments) == (-1, -1, {}, {})


@pytest.mark.parametrize("attribute", ["name", "partitions"])
def test_frozen(attribute: str) -> None:
    with pytest.raises(AttributeError):
        setattr(NewTopic("t"), attribute, "u")
