"""A group with offsets in Kafka and ZooKeeper, and the command that copies them: `kafkawire groups migrate-offsets`."""

from __future__ import annotations

import pytest

from kafkawire import OffsetAndMetadata, TopicPartition
from kafkawire.commands import main
from kafkawire.sync import Admin, Consumer
from kafkawire.testing import Broker
from tests.sdk.consumer.zookeeper_server import ZooKeeper

__all__ = ["Scene"]


class Scene:
    """A broker, a ZooKeeper registry, and the command that copies between them.

    Attributes:
        group: the group, a new one for each test.
    """

    def __init__(self, node: Broker, group: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.server = ZooKeeper()
        self.node = node
        self.group = group
        self._capsys = capsys

    def put(self, partition: TopicPartition, offset: object) -> None:
        """Store an offset in ZooKeeper."""
        self.server.put(
            f"/consumers/{self.group}/offsets/{partition.topic}/{partition.partition}", str(offset).encode()
        )

    def in_zookeeper(self, partition: TopicPartition) -> bytes | None:
        return self.server.data(self._path(partition))

    def commit(self, offsets: dict[TopicPartition, int]) -> None:
        """Store offsets in Kafka."""
        with Consumer(self.node.bootstrap, group_id=self.group) as consumer:
            consumer.commit(offsets)

    def in_kafka(self) -> dict[TopicPartition, OffsetAndMetadata]:
        with Admin(self.node.bootstrap) as admin:
            return admin.list_group_offsets(self.group)

    def run(self, to: str, *options: str, code: int = 0) -> str:
        """Run the command, and return its output from both streams."""
        where = ["--bootstrap", self.node.bootstrap, "--zookeeper", "z:2181/kafka", "--to", to]
        assert main.main(["groups", "migrate-offsets", self.group, *where, *options]) == code
        shown = self._capsys.readouterr()
        return shown.out + shown.err

    def _path(self, partition: TopicPartition) -> str:
        return f"/consumers/{self.group}/offsets/{partition.topic}/{partition.partition}"
