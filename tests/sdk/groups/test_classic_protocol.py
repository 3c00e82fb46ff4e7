"""The leader's view of a cluster contains the existing topics, their partitions and the racks of the replicas."""

from __future__ import annotations

from kafkawire.sdk.groups.classic_protocol import ClusterView
from kafkawire.sdk.routing.metadata import ClusterBroker, Metadata, Partition, Topic
from kafkawire.sdk.transport.wire import Address


def test_the_view_shows_partitions_and_racks() -> None:
    metadata = Metadata()
    metadata.brokers = {
        1: ClusterBroker(1, Address("a", 1), "east"),
        2: ClusterBroker(2, Address("b", 1), "west"),
        3: ClusterBroker(3, Address("c", 1)),
    }
    partitions = {1: Partition(1, replicas=(2, 3)), 0: Partition(1, replicas=(1, 2, 9))}
    metadata.topics["t"] = Topic("t", b"t" * 16, partitions)
    metadata.topics["other"] = Topic("other", b"o" * 16, {0: Partition(None)})
    view = ClusterView.of({"t", "missing"}, metadata)
    assert view.partition_counts == {"t": 2}
    assert view.replica_racks == {"t": [{"east", "west"}, {"west"}]}
    assert view == ClusterView.of({"t"}, metadata)
    partitions[2] = Partition(1)
    assert view != ClusterView.of({"t"}, metadata)
