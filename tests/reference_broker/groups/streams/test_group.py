"""A group's state follows from its members, topology and epochs; commits are checked against members' epochs.

Method: build groups by hand. The other requests are tested in test_operations.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkawire.reference_broker.groups.requests import Commit
from kafkawire.reference_broker.groups.streams.group import StreamsGroup, StreamsGroupState, StreamsMember
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.groups.streams.streams_bench import WORD_COUNT, tasks

NONE, UNKNOWN, STALE = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH
ILLEGAL = ErrorCode.ILLEGAL_GENERATION


def group_of(*members: StreamsMember, **fields: Any) -> StreamsGroup:
    group = StreamsGroup("g", topology=WORD_COUNT, **fields)
    for member in members:
        group.put(member)
    return group


@pytest.mark.parametrize(
    ("group", "state"),
    [
        (group_of(), StreamsGroupState.EMPTY),
        (group_of(StreamsMember("m", epoch=1), validated_topology_epoch=-1), StreamsGroupState.NOT_READY),
        (StreamsGroup("g", members={"m": StreamsMember("m")}), StreamsGroupState.NOT_READY),
        (group_of(StreamsMember("m", epoch=1), epoch=2), StreamsGroupState.ASSIGNING),
        (group_of(StreamsMember("m", epoch=0)), StreamsGroupState.RECONCILING),
        (group_of(StreamsMember("m", epoch=1)), StreamsGroupState.STABLE),
    ],
)
def test_states(group: StreamsGroup, state: StreamsGroupState) -> None:
    assert group.state is state


def test_members_read_the_sources() -> None:
    assert not group_of().is_subscribed_to("t")
    group = group_of(StreamsMember("m"))
    assert [group.is_subscribed_to(name) for name in ("t", "r", "c", "x")] == [True, True, False, False]


def test_member_that_changes_its_process_takes_its_tasks_along() -> None:
    group = group_of(StreamsMember("m", process_id="p", assigned=tasks({"0": (0,)}, {"1": (0,)})))
    group.put(StreamsMember("m", process_id="q", assigned=tasks({"0": (0,)}, {"1": (0,)})))
    assert group.owners == ({("0", 0): "q"}, {("1", 0): {"q"}}, {})


def test_task_stays_with_its_new_owner_when_the_former_one_gives_it_back() -> None:
    group = group_of(
        StreamsMember("m", process_id="p", assigned=tasks({"0": (0,)}, {"1": (0,)})),
        StreamsMember("n", process_id="q", assigned=tasks({"0": (0,)}, {"1": (0,)})),
    )
    group.put(StreamsMember("m", process_id="p"))
    assert group.owners == ({("0", 0): "q"}, {("1", 0): {"q"}}, {})
    group.remove("m")
    assert group.owners == ({("0", 0): "q"}, {("1", 0): {"q"}}, {})
    group.remove("n")
    assert group.owners == ({}, {}, {})


MEMBER = StreamsMember(
    "m",
    epoch=5,
    previous_epoch=4,
    assigned=tasks({"0": (0,), "1": (1,)}),
    revoking=tasks({"0": (1,)}),
    since={("0", 0): 5, ("1", 1): 3, ("0", 1): 2},
)


def code_of(check: Callable[[], None]) -> ErrorCode:
    """Return the code of the error that a check raises, or NONE."""
    try:
        check()
    except BrokerError as error:
        return error.code
    return NONE


@pytest.mark.parametrize(
    ("epoch", "member_id", "partitions", "code"),
    [
        (5, "m", [("t", 0), ("x", 9)], NONE),
        (6, "m", [("t", 0)], STALE),
        (4, "m", [("t", 0)], STALE),
        (3, "m", [("r", 1)], NONE),
        (2, "m", [("r", 1)], STALE),
        (2, "m", [("t", 1)], NONE),
        (4, "m", [("r", 0)], STALE),
        (4, "m", [("x", 0)], STALE),
        (-1, "m", [("t", 1)], STALE),
        (5, "n", [("t", 0)], UNKNOWN),
        (-1, "", [("t", 0)], UNKNOWN),
    ],
)
def test_commits(epoch: int, member_id: str, partitions: list[tuple[str, int]], code: ErrorCode) -> None:
    group = group_of(MEMBER)
    assert code_of(lambda: group.check_commit(member_id, epoch, partitions)) is code
    if member_id == "m":
        old = code_of(lambda: group.check_commit(member_id, epoch, partitions, knows_epochs=False))
        assert old is ErrorCode.UNSUPPORTED_VERSION
    expected = NONE if (epoch, member_id) == (-1, "") else {STALE: ILLEGAL}.get(code, code)
    commit = Commit("g", epoch, member_id, None)
    assert code_of(lambda: group.check_commit_in_transaction(commit, partitions)) is expected


def test_commits_without_topology_or_members() -> None:
    group = StreamsGroup("g", members={"m": MEMBER})
    assert code_of(lambda: group.check_commit("m", 4, [("t", 0)])) is STALE
    assert code_of(lambda: group_of().check_commit("", -1)) is NONE
    assert code_of(lambda: group_of().check_commit("", 0)) is UNKNOWN


@pytest.mark.parametrize(("epoch", "member_id", "code"), [(5, "m", NONE), (4, "m", STALE), (5, "n", UNKNOWN)])
def test_fetches(epoch: int, member_id: str, code: ErrorCode) -> None:
    assert code_of(lambda: group_of(MEMBER).check_fetch(member_id, epoch)) is code
