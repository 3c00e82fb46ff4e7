"""A consumer is sent to the follower in its rack that has the most records.

Method: check a table of positions and racks; the choices are those of Kafka's `RackAwareReplicaSelector`.
"""

import pytest

from kafkawire.reference_broker.replicas.follower_positions import FollowerPosition
from kafkawire.reference_broker.replicas.preferred_readers import preferred_reader


def position(broker_id, end_offset=10, caught_up_ms=0):
    made = FollowerPosition(broker_id)
    made.end_offset, made.caught_up_ms = end_offset, caught_up_ms
    return made


@pytest.mark.parametrize(
    ("rack", "racks", "followers", "expected"),
    [
        pytest.param("", {2: ""}, [position(2)], None, id="no rack"),
        pytest.param("b", {1: "b", 2: "b"}, [position(2)], None, id="the leader's rack"),
        pytest.param("b", {1: "a", 3: "c"}, [position(3)], None, id="no replica in the rack"),
        pytest.param("b", {1: "a", 2: "b"}, [], None, id="nobody able"),
        pytest.param("b", {1: "a", 2: "b", 3: "b"}, [position(2, 10), position(3, 9)], 2, id="most records"),
        pytest.param(
            "b", {1: "a", 2: "b", 3: "b"}, [position(2, caught_up_ms=5), position(3, caught_up_ms=4)], 2, id="latest"
        ),
        pytest.param("b", {1: "a", 2: "b", 3: "b"}, [position(3), position(2)], 3, id="highest id"),
    ],
)
def test_choices(rack, racks, followers, expected):
    assert preferred_reader(rack, 1, followers, racks.get) == expected
