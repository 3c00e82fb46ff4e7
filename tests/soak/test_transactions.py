"""The soak test counts missing, duplicate and unknown records in the copy; its workers rewind to the committed offsets.

Method: run the parts that do not need three nodes on the reference broker; `python -m tools.soak` runs the whole test.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from kafkawire import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkawire.testing import Broker
from tools.soak.transactions import GROUP, PARTITIONS, SOURCE, TARGET, Soak, Worker, main


@pytest.mark.parametrize(
    ("copied", "faults"),
    [
        ([0, 1, 2, 3], {}),
        ([0, 1, 1, 3, 3, 3], {"missing": 1, "doubled": 3}),
        ([0, 1, 2, 3, 9], {"unknown": 1}),
    ],
)
def test_what_is_wrong_is_counted(copied: list[int], faults: dict[str, int]) -> None:
    async def test(bootstrap: str) -> Counter[str]:
        async with Admin(bootstrap) as admin:
            await admin.create_topics([NewTopic(TARGET, PARTITIONS, 1)])
        async with Producer(bootstrap) as producer:
            await producer.send_many(TARGET, [b"%d" % number for number in copied])
        cluster: Any = SimpleNamespace(bootstrap=bootstrap)
        soak = Soak(cluster, "classic", 1)
        soak._fed = 4
        found = await soak._compare()
        assert (soak.counts["fed"], soak.counts["found"]) == (4, len(copied))
        return found

    with Broker() as broker:
        assert asyncio.run(test(broker.bootstrap)) == faults


def test_a_worker_goes_back_to_what_was_committed() -> None:
    async def test(bootstrap: str) -> None:
        async with Admin(bootstrap) as admin:
            await admin.create_topics([NewTopic(SOURCE, 2, 1)])
        async with Producer(bootstrap) as producer:
            for partition in range(2):
                await producer.send_many(SOURCE, [b"0", b"1", b"2"], partition=partition)
        places = [TopicPartition(SOURCE, number) for number in range(2)]
        async with Consumer(bootstrap, group_id=GROUP, auto_offset_reset="latest") as consumer:
            consumer.assign(places)
            await consumer.commit({places[0]: 1})
            for place in places:
                consumer.seek(place, 3)
            await Worker(bootstrap, "w", "classic", "1")._rewind(consumer)
            assert [await consumer.position(place) for place in places] == [1, 0]

    with Broker() as broker:
        asyncio.run(test(broker.bootstrap))


def test_options() -> None:
    with pytest.raises(SystemExit):
        main(["--version", "3"])
