"""Offsets can be looked up by group and by topic, and expire when Kafka's do.

Method: create groups and offsets directly.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.groups.classic.group import ClassicGroup, GroupState, Member
from kafkawire.reference_broker.groups.offsets import Offsets, expired
from kafkawire.reference_broker.groups.records import Committed
from kafkawire.sdk.protocol.messages.groups.consumer_protocol_subscription import ConsumerProtocolSubscription
from kafkawire.sdk.protocol.programs import program

TOPIC_ID = bytes(range(16))
ENTRY = Committed(7, 3, "meta", 1000, TOPIC_ID)
RETENTION_MS = 500


def test_offsets_by_group_and_topic():
    offsets = Offsets()
    offsets.put("g", ("t", 0), ENTRY)
    offsets.put("g", ("t", 0), ENTRY._replace(offset=8))
    offsets.put("g", ("u", 0), ENTRY)
    offsets.put("h", ("t", 1), ENTRY)
    assert {partition: entry.offset for partition, entry in offsets.of_group("g").items()} == {("t", 0): 8, ("u", 0): 7}
    assert sorted((group, partition) for group, partition, _ in offsets.of_topic("t")) == [
        ("g", ("t", 0)),
        ("h", ("t", 1)),
    ]
    for group, partition in (("g", ("t", 0)), ("g", ("t", 0)), ("h", ("t", 1)), ("x", ("t", 1))):
        offsets.remove(group, partition)
    assert list(offsets.of_topic("t")) == []
    assert set(offsets.of_group("g")) == {("u", 0)}
    assert offsets.of_group("h") == {}
    offsets.remove("g", ("u", 0))
    assert offsets.of_group("g") == {}
    assert vars(offsets) == vars(Offsets()), "removed offsets left something behind"


def member(*topics, name="m"):
    data = b"\x00\x01" + program(ConsumerProtocolSubscription, 1).encode(ConsumerProtocolSubscription(list(topics)))
    return Member(name, None, "c", "/h", 10, 10, (("range", data),))


def group(state, *members, protocol_type: str | None = "consumer", changed_ms=1_200):
    made = ClassicGroup("g", state, 1, protocol_type, "range", state_changed_ms=changed_ms)
    for known in members:
        made.add(known)
    return made


STABLE = GroupState.STABLE


@pytest.mark.parametrize(
    ("made", "first_ms", "what"),
    [
        (group(GroupState.EMPTY, protocol_type=None), 1_500, ["t", "u"]),
        (group(GroupState.EMPTY), 1_700, ["t", "u"]),
        (group(GroupState.EMPTY, changed_ms=-1), 1_500, ["t", "u"]),
        (group(STABLE, member("t"), member("v", name="n")), 1_500, ["u"]),
        (group(STABLE, member("t", "u")), None, []),
        (group(STABLE, member("t"), protocol_type="connect"), None, []),
        (group(STABLE, Member("m", None, "c", "/h", 10, 10, (("range", b"\x00"),))), None, []),
        (group(GroupState.PREPARING_REBALANCE, member("t")), None, []),
        (group(GroupState.COMPLETING_REBALANCE, member("t")), None, []),
    ],
)
def test_expiry(made, first_ms, what):
    offsets = {("t", 0): ENTRY, ("u", 1): ENTRY}
    if first_ms is None:
        assert expired(made, offsets, RETENTION_MS, 10**9) == []
    else:
        assert expired(made, offsets, RETENTION_MS, first_ms - 1) == []
        assert [topic for topic, _ in expired(made, offsets, RETENTION_MS, first_ms)] == what


def test_offset_with_its_own_expiry():
    offsets = {("t", 0): ENTRY._replace(expire_timestamp=5_000)}
    made = group(GroupState.EMPTY)
    assert expired(made, offsets, RETENTION_MS, 4_999) == []
    assert expired(made, offsets, RETENTION_MS, 5_000) == [("t", 0)]
