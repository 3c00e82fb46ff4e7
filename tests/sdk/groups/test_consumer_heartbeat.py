"""A heartbeat carries only the fields that have changed, or all of them if nothing has been confirmed.

Method: build heartbeats after each kind of change.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.groups.consumer_heartbeat import HeartbeatContent, heartbeat
from kafkawire.sdk.groups.protocol import GroupSettings

T = b"t" * 16
NAMES = HeartbeatContent(("t",), None, frozenset({(T, 1), (T, 0)}))
PATTERN = HeartbeatContent(None, "t.*", NAMES.owned)


@pytest.mark.parametrize(
    ("epoch", "said", "says", "subscribed", "owned"),
    [
        (3, NAMES, NAMES, (None, None), None),
        (3, None, NAMES, (("t",), None), [0, 1]),
        (0, NAMES, NAMES, (("t",), None), [0, 1]),
        (3, NAMES, PATTERN, ((), "t.*"), None),
        (3, PATTERN, NAMES, (("t",), ""), None),
        (3, NAMES, NAMES._replace(owned=frozenset({(T, 1)})), (None, None), [1]),
    ],
)
def test_what_a_heartbeat_says(
    epoch: int, said: HeartbeatContent | None, says: HeartbeatContent, subscribed: Any, owned: Any
) -> None:
    request = heartbeat(GroupSettings("g", rack="r"), "a", epoch, said, says)
    names = request.subscribed_topic_names
    assert (None if names is None else tuple(names), request.subscribed_topic_regex) == subscribed
    found = request.topic_partitions
    assert (None if found is None else [list(each.partitions) for each in found]) == (owned and [owned])
    assert request.rack_id == ("r" if said is None or epoch == 0 else None)
    assert (request.group_id, request.member_id, request.member_epoch) == ("g", "a", epoch)
