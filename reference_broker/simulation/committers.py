"""Commit increasing offsets for a group and read them back: they must never decrease."""

from __future__ import annotations

from typing import Final

from kafkawire.reference_broker.simulation.checkers import Violation
from kafkawire.reference_broker.simulation.client import Ask, Client, Pause, Script, ask
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kafkawire.sdk.protocol.tables.enums import CoordinatorType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import Coordinator
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["Committer"]

#: The last versions with topic names.
_VERSION: Final = 9


class Committer:
    """A group without members, for which one user commits 1, 2, 3, … for a partition.

    Args:
        client: sends the requests.
        group: the group.
        partition: the partition.

    Attributes:
        client: see above.
        committed: the highest offset that was acknowledged or read.
        asked: the highest offset that was sent in a commit.
    """

    def __init__(self, client: Client, group: str, partition: TopicPartition) -> None:
        self.client = client
        self._group = group
        self._target = Coordinator(CoordinatorType.GROUP, group)
        self._partition = partition
        self.committed = -1
        self.asked = 0

    def script(self) -> Script:
        """Commit and read until the client ends."""
        chance = self.client.chance
        while not self.client.is_over:
            if chance.random() < 0.7:
                yield from self._commit()
            else:
                yield from self.read()
            yield Pause(chance.randint(50, 400))

    def _commit(self) -> Script:
        self.asked += 1
        part = OffsetCommitRequest.OffsetCommitRequestPartition(self._partition.partition, self.asked)
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(self._partition.topic, partitions=[part])
        request = OffsetCommitRequest(self._group, topics=[topic])
        response = yield from ask(Ask(self._target, request, _VERSION), OffsetCommitResponse)
        if response is not None and response.topics[0].partitions[0].error_code == ErrorCode.NONE:
            self.committed = self.asked

    def read(self) -> Script:
        """Read the committed offset."""
        topic = OffsetFetchRequest.OffsetFetchRequestTopics(
            self._partition.topic, partition_indexes=[self._partition.partition]
        )
        group = OffsetFetchRequest.OffsetFetchRequestGroup(self._group, topics=[topic])
        request = OffsetFetchRequest(groups=[group], require_stable=True)
        response = yield from ask(Ask(self._target, request, _VERSION), OffsetFetchResponse)
        if response is None or response.groups[0].error_code or response.groups[0].topics[0].partitions[0].error_code:
            return
        offset = response.groups[0].topics[0].partitions[0].committed_offset
        if not self.committed <= offset <= self.asked:
            raise Violation(
                f"group {self._group} has offset {offset} committed, but {self.committed} was acknowledged "
                f"and {self.asked} was the last one sent"
            )
        self.committed = offset
