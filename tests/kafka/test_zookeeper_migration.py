"""A group with both kinds of members moves its offsets from ZooKeeper to Kafka and back, and misses no record.

Method: run the members as processes with a real ZooKeeper and a Kafka 3.9 broker. While records are written, the
members are stopped and started one at a time, with the settings that Kafka 1.1's documentation gives for each round.
Then the group is stopped, and the command copies the offsets. After each round, the current store must have each
partition's end. KAFKAWIRE_ZOOKEEPER_MEMBERS sets the number of members of each kind.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkawire import OffsetTimestamp, TopicPartition
from kafkawire.commands import main
from kafkawire.sync import Admin
from tests.kafka.zookeeper import ZooKeeper, ZooKeeperKafka
from tests.kafka.zookeeper_members import await_so
from tests.kafka.zookeeper_scene import Scene

#: The number of members of each kind.
MEMBERS = int(os.environ.get("KAFKAWIRE_ZOOKEEPER_MEMBERS", "1"))

#: The settings for each round, and the store that must have all offsets afterwards.
ROUNDS = (
    ({"offsets_storage": "zookeeper"}, ("zookeeper",)),
    ({"offsets_storage": "kafka", "dual_commit_enabled": "true"}, ("zookeeper", "kafka")),
    ({"offsets_storage": "kafka", "dual_commit_enabled": "false"}, ("kafka",)),
    ({"offsets_storage": "kafka", "dual_commit_enabled": "true"}, ("zookeeper", "kafka")),
    ({"offsets_storage": "zookeeper"}, ("zookeeper",)),
)

#: The minimum number of records written after each change; one is written every 10 ms.
RECORDS = 40

pytestmark = pytest.mark.timeout(300 + 200 * MEMBERS)


def offsets(scene: Scene, store: str) -> list[int | None]:
    """Return the offsets in a store, keyed by partition."""
    if store == "zookeeper":
        return scene.owners.offsets()
    with Admin(scene.place.bootstrap) as admin:
        found = admin.list_group_offsets(scene.place.group)
    partitions = (TopicPartition(scene.place.topic, number) for number in range(scene.place.partitions))
    return [found[each].offset if each in found else None for each in partitions]


def await_committed(scene: Scene, stores: tuple[str, ...]) -> list[int | None]:
    """Wait until each store has each partition's end."""
    with Admin(scene.place.bootstrap) as admin:
        partitions = [TopicPartition(scene.place.topic, number) for number in range(scene.place.partitions)]
        found = admin.list_offsets(dict.fromkeys(partitions, OffsetTimestamp.LATEST))
    ends: list[int | None] = [found[each].offset for each in partitions]

    def has_ends() -> bool:
        return all(offsets(scene, store) == ends for store in stores)

    await_so(has_ends, lambda: f"{[offsets(scene, store) for store in stores]}, expected {ends}", scene.members)
    return ends


def test_there_and_back_with_members_of_both_kinds(
    zookeeper_servers: tuple[ZooKeeper, ZooKeeperKafka], tmp_path: Path
) -> None:
    scene = Scene(zookeeper_servers, tmp_path)
    with scene.running():
        (first, _), *later = ROUNDS
        scene.begin(**first)
        for number in range(2 * MEMBERS - 1):
            scene.join(is_ours=bool(number % 2), **first)
        for settings, stores in later:
            for member in list(scene.members):
                scene.writing.await_more(RECORDS)
                scene.leave(member)
                scene.writing.await_more(RECORDS)
                scene.join(member.is_ours, **settings)
            written = scene.writing.pause()
            scene.await_all(written)
            ends = await_committed(scene, stores)
            print(f"{settings}: {len(written)} records, offsets {ends}")
            scene.writing.resume()
        written = scene.writing.end()
        scene.await_all(written)
        ends = await_committed(scene, ("zookeeper",))
        for member in list(scene.members):
            scene.leave(member)
        assert offsets(scene, "zookeeper") == ends
    twice = sum(times - 1 for times in scene.seen.times.values())
    print(f"{len(written)} records, {twice} read again")
    assert list(scene.owners.conflicts(scene.all)) == []
    assert not twice, "nobody was killed"


def test_the_command_copies_offsets_that_both_kinds_go_on_from(
    zookeeper_servers: tuple[ZooKeeper, ZooKeeperKafka], tmp_path: Path
) -> None:
    scene = Scene(zookeeper_servers, tmp_path)
    where = ["--bootstrap", scene.place.bootstrap, "--zookeeper", scene.place.connect, "--to"]
    command = ["groups", "migrate-offsets", scene.place.group, *where]
    in_kafka = {"offsets_storage": "kafka", "dual_commit_enabled": "false"}
    with scene.running():
        scene.begin()
        assert main.main([*command, "kafka"]) == 1, "must be refused while the group has a member"
        scene.join(is_ours=False)
        for member in list(scene.members):
            scene.leave(member)
        before = offsets(scene, "zookeeper")
        assert main.main([*command, "kafka"]) == 0
        assert offsets(scene, "kafka") == offsets(scene, "zookeeper") == before
        for is_ours in (False, True):
            scene.join(is_ours, **in_kafka)
        scene.writing.await_more(RECORDS)
        for member in list(scene.members):
            scene.leave(member)
        assert offsets(scene, "zookeeper") == before
        after = offsets(scene, "kafka")
        assert main.main([*command, "zookeeper"]) == 0
        assert offsets(scene, "zookeeper") == after != before
        for is_ours in (False, True):
            scene.join(is_ours)
        scene.await_all(scene.writing.end())
        for member in list(scene.members):
            scene.leave(member)
    assert set(scene.seen.times.values()) == {1}, "nobody was killed"
