"""The states of a member have the names in `cluster.json`, and each can be left.

Method: check the table state by state.
"""

from __future__ import annotations

import pytest

from kafkawire.local_cluster.member_state import MEMBER_EDGES, MemberState


@pytest.mark.parametrize("state", MemberState)
def test_a_member_without_a_process_can_only_be_started(state: MemberState) -> None:
    follows = MEMBER_EDGES.edges[state]
    assert (set(follows) == {MemberState.STARTING}) is not state.has_process
    assert all(after.has_process for after in follows) is not state.has_process


def test_names() -> None:
    assert [state.value for state in MemberState] == [state.name.lower() for state in MemberState]
