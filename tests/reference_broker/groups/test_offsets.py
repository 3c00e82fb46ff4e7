"""Offsets and groups are written as Kafka writes them and read back; deletions delete; unknown records are left alone.

Method: an append function that collects records; bytes are compared with what Apache Kafka 4.3 writes.
"""

import struct

import pytest

from kafkawire.reference_broker.groups.group import Group, GroupState, Member
from kafkawire.reference_broker.groups.offsets import Committed, OffsetStore, java_hash, offsets_partition
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

TOPIC_ID = bytes(range(16))
ENTRY = Committed(7, 3, "meta", 1000, TOPIC_ID)


@pytest.fixture
def log():
    return []


@pytest.fixture
def store(log):
    return OffsetStore(lambda group_id, records, now_ms: log.extend(records))


def read_back(log):
    store = OffsetStore(lambda *arguments: None)
    return store, store.load(log)


def test_bytes_of_an_offset(store, log):
    store.commit("g", {("t", 2): ENTRY}, 1000)
    ((key, value),) = log
    assert key == b"\x00\x01" + b"\x00\x01g" + b"\x00\x01t" + b"\x00\x00\x00\x02"
    tagged = b"\x01" + b"\x00\x10" + TOPIC_ID
    assert value == b"\x00\x04" + struct.pack(">qi", 7, 3) + b"\x05meta" + struct.pack(">q", 1000) + tagged


def test_offsets_come_back(store, log):
    store.commit("g", {("t", 2): ENTRY, ("u", 0): ENTRY._replace(offset=1)}, 1000)
    store.commit("g", {("t", 2): ENTRY._replace(offset=9)}, 1000)
    store.commit("h", {("t", 0): ENTRY}, 1000)
    again, groups = read_back(log)
    for known in (store, again):
        assert known.of_group("g") == {("t", 2): ENTRY._replace(offset=9), ("u", 0): ENTRY._replace(offset=1)}
        assert set(known.groups()) == {"g", "h"}
    assert {name: group.state for name, group in groups.items()} == {"g": GroupState.EMPTY, "h": GroupState.EMPTY}


def test_nothing_to_commit_writes_nothing(store, log):
    store.commit("g", {}, 1000)
    assert not log


def test_failed_write_is_not_remembered():
    def fail(*arguments):
        raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR)

    store = OffsetStore(fail)
    with pytest.raises(BrokerError):
        store.commit("g", {("t", 2): ENTRY}, 1000)
    assert not store.of_group("g")


def test_offsets_of_a_deleted_topic(store, log):
    store.commit("g", {("t", 2): ENTRY, ("u", 0): ENTRY}, 1000)
    store.forget_topic("t", 1000)
    again, _ = read_back(log)
    assert set(store.of_group("g")) == set(again.of_group("g")) == {("u", 0)}


def stable_group():
    group = Group("g", GroupState.STABLE, 5, "consumer", "range", state_changed_ms=77)
    group.add(Member("m1", None, "c", "/h", 10, 20, (("range", b"sub"), ("other", b"x")), b"assigned"))
    group.add(Member("m2", "i", "c", "/h", 11, 21, (("range", b"sub2"),), b"assigned2"))
    return group


def test_groups_come_back(store, log):
    store.store_group(stable_group(), 1000)
    group = read_back(log)[1]["g"]
    assert (group.state, group.generation_id, group.protocol_type) == (GroupState.STABLE, 5, "consumer")
    assert (group.protocol_name, group.leader_id, group.state_changed_ms) == ("range", "m1", 77)
    first, second = group.members.values()
    assert (first.member_id, first.session_timeout_ms, first.rebalance_timeout_ms) == ("m1", 10, 20)
    assert (first.protocols, first.assignment) == ((("range", b"sub"),), b"assigned")
    assert (second.instance_id, group.static_members) == ("i", {"i": "m2"})


def test_empty_group_comes_back(store, log):
    store.store_group(Group("g", generation_id=6, protocol_type="consumer"), 1000)
    group = read_back(log)[1]["g"]
    assert (group.state, group.generation_id, group.protocol_name, group.leader_id) == (GroupState.EMPTY, 6, None, None)


def test_removed_group_stays_away(store, log):
    store.commit("g", {("t", 2): ENTRY}, 1000)
    store.store_group(stable_group(), 1000)
    store.remove_group("g", 1000)
    again, groups = read_back(log)
    assert not groups
    assert not again.of_group("g")


def test_records_of_other_kinds_are_left_alone(store):
    assert store.load([(b"\x00\x03\x00\x01g", b"\x00\x00junk"), (None, b"x")]) == {}


@pytest.mark.parametrize(
    ("text", "code"),
    [("", 0), ("a", 97), ("hello", 99162322), ("\U0001f600", 1772899), ("ä", 228), ("polygenelubricants", -(2**31))],
)
def test_java_hash(text, code):
    assert java_hash(text) == code


@pytest.mark.parametrize(
    ("group_id", "partitions", "partition"), [("hello", 50, 22), ("polygenelubricants", 50, 0), ("a", 1, 0)]
)
def test_offsets_partition(group_id, partitions, partition):
    assert offsets_partition(group_id, partitions) == partition
