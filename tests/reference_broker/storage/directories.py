"""Helpers that open a data directory, create topics and append to them."""

from itertools import count

from kafkawire.reference_broker.metadata.topic_files import LocalTopic
from kafkawire.reference_broker.metadata.topic_store import open_alone
from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.reference_broker.work.background import at_once
from tests.reference_broker.storage.produced_batches import NOW_MS, produced

__all__ = ["append", "create", "create_logs", "on"]


def create(store, name, partitions=1, configs=None):
    made = []
    store.create(name, partitions, configs or {}, made.append)
    (topic,) = made
    assert isinstance(topic, LocalTopic), topic
    return topic


def create_logs(store, name, partitions=1, configs=None):
    create(store, name, partitions, configs)
    return [*store.directory.of(name).values()]


def append(log, *values):
    data = produced(*values)
    log.append(data, parse_header(data), NOW_MS, lambda result: None)


def on(disk, background=at_once, node_id=1):
    numbers = count(1)
    return open_alone(LogServices(disk, background), node_id, lambda: next(numbers).to_bytes(16, "big"))
