"""A group's offsets are copied from ZooKeeper to Kafka and back, unless it has members or an offset would decrease.

Method: run the command, a reference broker and a registry in this process; tests/kafka/test_zookeeper_migration.py uses
a real ZooKeeper server.
"""

from __future__ import annotations

import pytest

from kafkawire import TopicPartition
from kafkawire.commands.groups import offset_migration
from kafkawire.sync import Consumer
from tests.commands.groups.migrating import Scene

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_there_and_back(scene: Scene) -> None:
    scene.put(T0, 5)
    scene.put(T1, 0)
    shown = scene.run("kafka")
    assert {each: found.offset for each, found in scene.in_kafka().items()} == {T0: 5, T1: 0}
    assert [line.split() for line in shown.splitlines()[1:3]] == [["t", "0", "5", "none"], ["t", "1", "0", "none"]]
    assert shown.endswith(f"2 offsets of group {scene.group} were copied to kafka\n")
    scene.commit({T0: 7})
    shown = scene.run("zookeeper")
    assert (scene.in_zookeeper(T0), scene.in_zookeeper(T1)) == (b"7", b"0")
    assert shown.splitlines()[1].split() == ["t", "0", "7", "5"]
    assert all(session.is_closed for session in scene.server.sessions)


def test_an_offset_that_would_go_back(scene: Scene) -> None:
    scene.put(T0, 5)
    scene.put(T1, 9)
    scene.commit({T0: 6})
    shown = scene.run("kafka", code=1)
    assert shown == "error: kafka has larger offsets: t-0 from 6 to 5; use --force to replace them\n"
    assert scene.in_kafka().keys() == {T0}
    scene.run("kafka", "--force")
    assert {each: found.offset for each, found in scene.in_kafka().items()} == {T0: 5, T1: 9}


def test_only_some_of_many_offsets_are_named() -> None:
    copied = [offset_migration.CopiedOffset(TopicPartition("t", number), 1, 2) for number in range(7)]
    with pytest.raises(offset_migration.MigrationRefused, match="t-4 from 2 to 1 and 2 more; use --force"):
        offset_migration._check_goes_on(copied, offset_migration.Store.KAFKA)


def test_partitions_that_do_not_exist_are_left_out(scene: Scene) -> None:
    for partition in (T0, TopicPartition("t", 2), TopicPartition("gone", 0)):
        scene.put(partition, 5)
    scene.server.put(f"/consumers/{scene.group}/offsets/t/x", b"5")
    scene.put(T1, -1)
    shown = scene.run("kafka")
    assert scene.in_kafka().keys() == {T0}
    assert shown.count("no such partition") == 2
    assert "1 offset of group" in shown


def test_an_offset_that_cannot_be_read(scene: Scene) -> None:
    scene.put(T0, "x")
    shown = scene.run("kafka", code=1)
    assert shown.startswith("error: ")
    assert f"{scene.group}/offsets/t/0" in shown


@pytest.mark.parametrize("to", ["kafka", "zookeeper"])
def test_a_group_with_members_in_zookeeper(scene: Scene, to: str) -> None:
    scene.server.put(f"/consumers/{scene.group}/ids/g_host-1-a", b"{}")
    assert scene.run(to, code=1) == f"error: group {scene.group} has members in ZooKeeper: g_host-1-a\n"


def test_a_group_with_members_in_kafka(scene: Scene) -> None:
    with Consumer(scene.node.bootstrap, "t", group_id=scene.group) as consumer:
        while not consumer.assignment:
            consumer.getmany(20)
        assert "is Stable in Kafka, with 1 members" in scene.run("zookeeper", code=1)


def test_a_zookeeper_that_does_not_answer(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.server.opens = False
    monkeypatch.setattr(offset_migration, "TIMEOUT_SECONDS", 0.01)
    assert scene.run("kafka", code=1) == "error: no response from the ZooKeeper of this test within 0.01 s\n"
    assert scene.server.sessions[0].is_closed
