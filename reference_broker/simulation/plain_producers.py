"""A producer without an id, which sends each value once, and does not care whether it is stored or kept."""

from __future__ import annotations

from typing import Final

from kafkawire.reference_broker.simulation.client import Client, Pause, Script, ask
from kafkawire.reference_broker.simulation.producers import batch_of, produce_request
from kafkawire.sdk.protocol.messages.produce import ProduceResponse
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["PlainProducer"]

_PAUSE_MS: Final = 150

#: No producer id and no producer epoch.
_NO_PRODUCER: Final = (-1, -1)


class PlainProducer:
    """Produces to a partition that may lose records.

    Args:
        client: sends the requests.
        partition: the partition to produce to.

    Attributes:
        stored: how many batches were acknowledged.
    """

    def __init__(self, client: Client, partition: TopicPartition) -> None:
        self._client = client
        self._partition = partition
        self.stored = 0

    def script(self) -> Script:
        """Produce until the client ends."""
        client, count = self._client, 0
        while not client.is_over:
            yield Pause(client.chance.randint(1, _PAUSE_MS))
            leader = client.leader(self._partition)
            if leader is None:
                continue
            count += 1
            batch = batch_of((b"%d" % count,), client.host.clock(), _NO_PRODUCER, -1)
            response = yield from ask(produce_request(leader, self._partition, batch), ProduceResponse)
            if response is None or response.responses[0].partition_responses[0].error_code:
                client.outdated()
            else:
                self.stored += 1
