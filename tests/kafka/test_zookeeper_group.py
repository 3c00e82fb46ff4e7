"""This package's members and Kafka 1.1's in one group: no partition has two readers, and no record is missed.

Method: run the members as processes with a real ZooKeeper and a Kafka 3.9 broker; while records are written, members
join, leave and are killed in an order given by a seed. Afterwards, compare the members' reports and the registry's
content. KAFKAWIRE_ZOOKEEPER_SECONDS sets how long that lasts; KAFKAWIRE_ZOOKEEPER_SEED sets another order.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random

import pytest

from tests.kafka.zookeeper import ZooKeeper, ZooKeeperKafka
from tests.kafka.zookeeper_scene import Scene

SECONDS = int(os.environ.get("KAFKAWIRE_ZOOKEEPER_SECONDS", "25"))
SEED = int(os.environ.get("KAFKAWIRE_ZOOKEEPER_SEED", "1"))

#: The number of members of each kind.
KIND = 2

#: The maximum number of records written between two changes; one is written every 10 ms.
PAUSE_RECORDS = 100

#: The limit for a rebalance on a loaded machine; a Kafka 1.1 member pauses after each attempt. A killed member remains
#: the owner until its session ends.
GAP_MS = 10_000

#: The time for starting and stopping servers and members, in addition to the test itself.
pytestmark = pytest.mark.timeout(300 + SECONDS)


def test_members_of_both_kinds_join_leave_and_are_killed(
    zookeeper_servers: tuple[ZooKeeper, ZooKeeperKafka], tmp_path: Path
) -> None:
    random, scene = Random(SEED), Scene(zookeeper_servers, tmp_path)
    deadline = time.monotonic() + SECONDS
    kills = changes = 0
    with scene.running():
        scene.begin()
        for is_ours in (False, True, False):
            scene.join(is_ours)
        while time.monotonic() < deadline or kills < 2 * KIND:
            leaver = scene.members[changes % len(scene.members)] if changes < 2 * KIND else random.choice(scene.members)
            is_killed = bool(changes % 2) if changes < 2 * KIND else random.random() < 0.5
            scene.leave(leaver, is_killed)
            changes, kills = changes + 1, kills + is_killed
            if random.random() < 0.7 or len(scene.members) < KIND:
                scene.join(leaver.is_ours)
            scene.writing.await_more(random.randrange(PAUSE_RECORDS))
        written = scene.writing.end()
        scene.await_all(written)
        for member in list(scene.members):
            scene.leave(member)
        assert not scene.owners.nodes()
    twice = sum(times - 1 for times in scene.seen.times.values())
    gap_ms = scene.owners.longest_gap_ms()
    print(
        f"{len(written)} records, {twice} read again; {changes} departures, {kills} by SIGKILL; "
        f"{len(scene.owners.looks)} looks, longest time without an owner {gap_ms:.0f} ms"
    )
    assert list(scene.owners.conflicts(scene.all)) == []
    assert gap_ms < GAP_MS


@pytest.mark.parametrize(
    "filters", [{"white_list": "{topic}|other"}, {"black_list": "(?!{topic}$).*"}], ids=["white", "black"]
)
def test_filters_choose_the_same_topics_for_both_kinds(
    zookeeper_servers: tuple[ZooKeeper, ZooKeeperKafka], tmp_path: Path, filters: dict[str, str]
) -> None:
    scene = Scene(zookeeper_servers, tmp_path, **filters)
    with scene.running():
        scene.begin()
        scene.join(is_ours=False)
        scene.leave(scene.members[0])
        scene.join(is_ours=True)
        scene.await_all(scene.writing.end())
        for member in list(scene.members):
            scene.leave(member)
    assert set(scene.seen.times.values()) == {1}, "nobody was killed"
    assert list(scene.owners.conflicts(scene.all)) == []
