"""A single broker is its own source of everything.

Method: use each source of an in-memory directory once.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.config.options import read_options
from kafkawire.reference_broker.metadata.new_topics import NewTopic
from kafkawire.reference_broker.metadata.sources import local_sources
from kafkawire.reference_broker.storage.checkpoints import ACLS, DELEGATION_TOKENS, DYNAMIC_CONFIGS, ENTITY_CONFIGS
from kafkawire.reference_broker.storage.disk.disk import replace_file
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.protocol.tables.enums import NO_LEADER_ID, ConfigResourceType
from kafkawire.sdk.transport.wire import Address
from tests.reference_broker.storage.directories import on

LISTENERS = {"PLAINTEXT": Address("host", 9092)}


def test_the_sources_of_a_broker_alone() -> None:
    sources = local_sources(on(MemoryDisk()), read_options({}), LISTENERS, {"f": 1}, lambda topic, done, now_ms: done())
    image = sources.metadata.image
    assert sources.is_controller()
    assert (image.brokers[image.controller_id].listeners, image.features.levels) == (LISTENERS, {"f": 1})
    told: list[object] = []
    sources.topics.create(NewTopic("t", 2), told.append)
    assert told == [sources.metadata.image.topics["t"]]
    sources.lost("t", 1)
    topic = sources.metadata.image.topics["t"]
    assert [partition.leader == NO_LEADER_ID for partition in topic.partitions] == [False, True]
    sources.configs.change(ConfigResourceType.BROKER, "", lambda before: {"a": "1"}, told.append)
    sources.producer_ids.reserve(told.append)
    assert told[1:] == [None, range(1000)]


@pytest.mark.parametrize("name", [ACLS, DELEGATION_TOKENS, DYNAMIC_CONFIGS, ENTITY_CONFIGS])
def test_a_damaged_file_stops_the_start(name: str) -> None:
    disk = MemoryDisk()
    replace_file(disk, name, b"x=y\n")
    options = read_options({"authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"})
    with pytest.raises(ConfigurationError, match=f"data_dir=.*{name} is damaged"):
        local_sources(on(disk), options, LISTENERS, {}, lambda topic, done, now_ms: done())
