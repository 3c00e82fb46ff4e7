"""Descriptions of streams groups are plain values.

Method: build them from the package's names.
"""

from __future__ import annotations

from kafkawire import (
    StreamsGroupDescription,
    StreamsMemberDescription,
    StreamsSubtopology,
    StreamsTask,
    StreamsTasks,
    StreamsTopic,
)


def test_values() -> None:
    tasks = StreamsTasks((StreamsTask("0", 1),), (), ())
    member = StreamsMemberDescription("m", None, None, "", "", "p", 0, None, {}, 2, tasks, tasks, False)
    part = StreamsSubtopology("0", ("t",), (), (StreamsTopic("c", 1, 0, {}),), ())
    group = StreamsGroupDescription("g", "Stable", 0, (part,), (member,), 2, 2)
    assert group.members[0].assignment.active == (("0", 1),)
    assert group.subtopologies[0].state_changelog_topics[0].name == "c"
