"""Requested topics are created with the broker's defaults, either all or none; if they are not, the log says why.

Method: use a broker without sockets on an in-memory disk.
"""

import logging

import pytest

from kafkawire.reference_broker.metadata.automatic_topics import create_automatically
from kafkawire.reference_broker.metadata.new_topics import PARTITIONS_MAX
from kafkawire.reference_broker.requests.delayed_operations import finished
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, fail_sometimes
from kafkawire.reference_broker.work.background import at_once
from kafkawire.sdk.log_limit import LogLimit
from tests.reference_broker.broker_bench import NOW_MS, BrokerBench
from tests.reference_broker.storage.held_work import HeldWork
from tests.thorough import sampled


def begin(bench, *names):
    lines = LogLimit(logging.getLogger("kafkawire.broker"))
    finished(create_automatically(bench.core.topics, bench.core.options, names, lines, NOW_MS))


def broker(background=at_once, **options):
    return BrokerBench(MemoryDisk(), background, **options)


def test_each_gets_what_the_broker_plans_for_it():
    bench = broker(num_partitions=3)
    begin(bench, "a", "__consumer_offsets", "b")
    counts = {name: len(topic.partitions) for name, topic in bench.core.metadata.image.topics.items()}
    assert counts == {"a": 3, "__consumer_offsets": 1, "b": 3}


def test_one_that_is_being_created_is_left_alone(caplog):
    bench = broker(work := HeldWork())
    for _ in range(3):
        begin(bench, "a", "b")
    work.run()
    assert list(bench.core.metadata.image.topics) == ["a", "b"]
    assert not caplog.records


@pytest.mark.parametrize(("count", "are_made"), sampled([(3, False), (2, True)], 2))
def test_too_many_are_not_created_at_all(caplog, count, are_made):
    bench = broker(num_partitions=PARTITIONS_MAX // 2)
    begin(bench, *map(str, range(count)))
    assert len(bench.core.metadata.image.topics) == (count if are_made else 0)
    assert [record.levelname for record in caplog.records] == ([] if are_made else ["WARNING"])


def test_what_cannot_be_created_keeps_no_other(caplog):
    bench = broker()
    begin(bench, "a.b", "a_b", "__cluster_metadata", "c")
    assert list(bench.core.metadata.image.topics) == ["a.b", "c"]
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "could not create the topic a_b",
        "could not create the topic __cluster_metadata",
    ]


def test_disk_that_has_failed(caplog):
    bench = BrokerBench(disk := MemoryDisk())
    disk.plan = fail_sometimes(1, 1.0)
    begin(bench, "a")
    assert not bench.core.metadata.image.topics
    assert "could not create the topic a" in caplog.text
