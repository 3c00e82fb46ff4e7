"""Tasks are spread evenly, stay where they are, follow their standby copies, and are copied to other processes.

Method: assign given tasks to given members; test_streams_group_steps.py in tests/kafka compares assignments with those
of Apache Kafka.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.groups.streams.configured_topology import ConfiguredSubtopology
from kafkawire.reference_broker.groups.streams.group import Tasks
from kafkawire.reference_broker.groups.streams.sticky_assignor import AssignedMember, sticky_assignment
from tests.reference_broker.groups.streams.streams_bench import internal, tasks


def part(count: int, *, is_stateful: bool = True) -> ConfiguredSubtopology:
    changelogs = (internal("c", count),) if is_stateful else ()
    return ConfiguredSubtopology(count, frozenset("t"), frozenset(), (), changelogs)


def assigned(
    members: dict[str, tuple[str, Tasks]], replicas: int = 0, **parts: ConfiguredSubtopology
) -> dict[str, Tasks]:
    seen = {name: AssignedMember(process, had) for name, (process, had) in members.items()}
    return sticky_assignment(seen, parts, replicas)


def test_new_members_get_ranges() -> None:
    found = assigned({"m": ("p", Tasks()), "n": ("q", Tasks())}, x=part(3), y=part(3))
    assert found == {"m": tasks({"x": (0, 2), "y": (1,)}), "n": tasks({"x": (1,), "y": (0, 2)})}


def test_nobody() -> None:
    assert assigned({}, x=part(3)) == {}


def test_tasks_stay() -> None:
    had = tasks({"x": (1, 3)})
    found = assigned({"m": ("p", had), "n": ("q", tasks({"x": (0, 2)}))}, x=part(4))
    assert found["m"] == had


def test_new_member_gets_what_exceeds_the_quota() -> None:
    found = assigned({"m": ("p", tasks({"x": (0, 1, 2, 3)})), "n": ("q", Tasks())}, x=part(4))
    assert found == {"m": tasks({"x": (0, 1)}), "n": tasks({"x": (2, 3)})}


def test_quota_is_rounded_up_for_the_first_members() -> None:
    found = assigned({"m": ("p", tasks({"x": (0, 1, 2)})), "n": ("q", Tasks())}, x=part(3))
    assert found == {"m": tasks({"x": (0, 1)}), "n": tasks({"x": (2,)})}


def test_standby_takes_over() -> None:
    found = assigned({"m": ("p", tasks({}, {"x": (1,)})), "n": ("q", tasks({"x": (0,)}))}, x=part(2))
    assert found == {"m": tasks({"x": (1,)}), "n": tasks({"x": (0,)})}


def test_idlest_standby_takes_over() -> None:
    members = {
        "m": ("p", tasks({"x": (0,)}, {"x": (2,)})),
        "n": ("q", tasks({}, {"x": (2,)})),
        "o": ("r", tasks({"x": (1,)})),
    }
    assert assigned(members, x=part(3))["n"] == tasks({"x": (2,)})


def test_members_of_a_process_share_its_tasks() -> None:
    found = assigned({name: ("p", Tasks()) for name in "mno"}, x=part(6))
    assert sorted(len(each.active["x"]) for each in found.values()) == [2, 2, 2]


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_standby_tasks_are_in_other_processes(replicas: int) -> None:
    found = assigned(
        {name: (name.upper(), Tasks()) for name in "mno"}, replicas, x=part(3), y=part(3, is_stateful=False)
    )
    for number in range(3):
        copies = [name for name, each in found.items() if number in each.standby.get("x", ())]
        assert len(copies) == min(replicas, 2)
        assert all(number not in found[name].active.get("x", ()) for name in copies)
    assert not any("y" in each.standby for each in found.values())


def test_no_standby_in_the_same_process() -> None:
    found = assigned({name: ("p", Tasks()) for name in "mn"}, 1, x=part(2))
    assert not any(each.standby for each in found.values())


def test_standby_tasks_stay() -> None:
    members = {"m": ("p", tasks({"x": (0, 1)}, {})), "n": ("q", tasks({"x": (2, 3)}, {"x": (1,)}))}
    found = assigned(members, 1, x=part(4))
    assert found["n"].standby["x"] >= {1}
    again = assigned({name: (members[name][0], had) for name, had in found.items()}, 1, x=part(4))
    assert again == found


def test_active_member_that_gives_up_a_task_becomes_its_standby() -> None:
    members = {"m": ("p", tasks({"x": (0, 1)})), "n": ("q", Tasks())}
    found = assigned(members, 1, x=part(2))
    assert found == {"m": tasks({"x": (0,)}, {"x": (1,)}), "n": tasks({"x": (1,)}, {"x": (0,)})}


def test_standby_prefers_the_idlest_of_those_before() -> None:
    members = {
        "m": ("p", tasks({"x": (0,)})),
        "n": ("q", tasks({"x": (1,)}, {"x": (0,)})),
        "o": ("r", tasks({"x": (2,)}, {"x": (0,)})),
    }
    found = assigned(members, 1, x=part(3))
    assert sum(0 in each.standby.get("x", ()) for each in found.values()) == 1
    assert 0 not in found["m"].standby.get("x", ())
