"""A partition's leader is known, or is not reachable, or the partition does not exist.

Method: look up leaders in a scripted cluster.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from kafkawire.sdk.protocol.tables.enums import NO_LEADER_ID
from kafkawire.sdk.routing.call import Purpose
from tests.reference_broker.transactions.peer_bench import OWN, PeerBench


@pytest.mark.parametrize(
    ("partition", "leader"),
    [
        (("a", 0), 2),
        (("a", 1), None),
        (("a", 2), NO_LEADER_ID),
        (("a", 3), NO_LEADER_ID),
        (("a", 4), OWN),
        (("a", 5), None),
        (("none", 0), None),
    ],
)
def test_leaders(partition, leader):
    """Partition 1 is a hole in the image, 2 has no leader, and the leader of 3 has no inter-broker listener."""
    bench = PeerBench({("a", 0): 2, ("a", 2): -1, ("a", 3): 3, ("a", 4): OWN})
    bench.alive = {2}
    assert bench.peers.leader(partition) == leader


def test_requests_are_sent_once():
    bench = PeerBench()
    bench.peers.ask(2, WriteTxnMarkersRequest([]), lambda outcome: None, Purpose.MARKERS)
    (asked,) = bench.asked
    assert (asked.broker_id, asked.purpose) == (2, Purpose.MARKERS)
