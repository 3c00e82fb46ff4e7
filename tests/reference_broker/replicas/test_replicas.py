"""A broker finds the replicas that it has, as topics come and go.

Method: a directory on a disk in memory, whose background work is held back where it matters.
"""

import pytest

from kafkawire.reference_broker.replicas.replicas import Replicas
from kafkawire.reference_broker.storage.directory.log_directory import LogDirectory
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode


@pytest.fixture
def directory():
    ids = iter(range(1, 100))
    directory = LogDirectory(LogServices(MemoryDisk()), 1, lambda: next(ids).to_bytes(16, "big"))
    directory.create("old", 2, {}, lambda made: None)
    return directory


def test_topics_that_come_and_go(directory):
    replicas = Replicas(directory)
    assert [replica.log for replica in replicas.of("old")] == directory.topics["old"].logs
    directory.create("new", 1, {}, lambda made: None)
    assert replicas.leader("new", 0).log is directory.log("new", 0)
    directory.delete(directory.topics["old"], lambda error: None)
    assert (replicas.of("old"), replicas.get("old", 0)) == ([], None)


@pytest.mark.parametrize(("topic", "number"), [("none", 0), ("old", 2), ("old", -1)])
def test_what_is_not_here(directory, topic, number):
    replicas = Replicas(directory)
    assert replicas.get(topic, number) is None
    with pytest.raises(BrokerError) as raised:
        replicas.leader(topic, number)
    assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_clients_of_other_epochs(directory):
    replicas = Replicas(directory)
    assert replicas.leader("old", 1, 0).log is directory.log("old", 1)
    with pytest.raises(BrokerError) as raised:
        replicas.leader("old", 1, 1)
    assert raised.value.code is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_topic_that_is_created_again_while_the_old_one_ends_is_there(directory):
    replicas = Replicas(directory)
    old = directory.topics["old"]
    replicas.leader("old", 0).when_reached(1, lambda error: directory.create("old", 1, {}, lambda made: None))
    directory.delete(old, lambda error: None)
    (replica,) = replicas.of("old")
    assert replica.log is directory.log("old", 0)
    assert replica.log is not old.logs[0]


def test_nothing_is_left_of_a_directory_that_is_let_go(directory):
    replicas = Replicas(directory)
    directory.abandon()
    assert replicas.of("old") == []
