"""Groups that hold only a pending member id are dropped when there are too many, unless they are used in the meantime.

Method: proceed as in `test_rebalances.py`.
"""

from __future__ import annotations

from tests.reference_broker.groups.group_bench import GroupBench


def test_groups_that_nobody_joined_are_limited(monkeypatch):
    monkeypatch.setattr("kafkawire.reference_broker.groups.classic.unused_groups._UNUSED_GROUPS_MAX", 3)
    bench = GroupBench()
    bench.commit(group_id="kept")
    for number in range(5):
        bench.join(needs_id=True, group_id=f"g{number}")
        bench.join(needs_id=True, group_id=f"g{number}")
    bench.join(needs_id=True, group_id="kept")
    assert [group.group_id for group in bench.groups.classic_groups()] == ["kept", "g2", "g3", "g4"]


def test_group_that_has_got_offsets_since_is_kept(monkeypatch):
    monkeypatch.setattr("kafkawire.reference_broker.groups.classic.unused_groups._UNUSED_GROUPS_MAX", 1)
    bench = GroupBench()
    bench.join(needs_id=True, group_id="kept")
    bench.commit(group_id="kept")
    for number in range(3):
        bench.join(needs_id=True, group_id=f"g{number}")
    assert [group.group_id for group in bench.groups.classic_groups()] == ["kept", "g2"]
