"""A log tells its owner what happens to it, in order.

Method: use an owner that records what it is told.
"""

from __future__ import annotations

from kafkawire.reference_broker.storage.log.appends import Appended, LogOwner, nobody
from kafkawire.reference_broker.storage.producers.markers import Marker, build_marker
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.storage.produced_batches import NOW_MS, produced
from tests.reference_broker.storage.replicated_logs import Replica, placed


class Told:
    """An owner that records what it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def transaction_begun(self, first_offset: int) -> None:
        self.calls.append(("begun", first_offset))

    def appended(self, end_offset: int, size_bytes: int) -> None:
        self.calls.append(("appended", end_offset))

    def moved(self) -> None:
        self.calls.append(("moved",))

    def trimmed(self) -> None:
        self.calls.append(("trimmed",))

    def truncated(self) -> None:
        self.calls.append(("truncated",))

    def settled(self) -> None:
        self.calls.append(("settled",))

    def prepared(self) -> None:
        self.calls.append(("prepared",))

    def ended(self, error: BrokerError) -> None:
        self.calls.append(("ended", error.code))

    def take(self) -> list[tuple[object, ...]]:
        calls, self.calls = self.calls, []
        return calls


def test_owner_of_a_follower():
    replica, told = Replica(), Told()
    owner: LogOwner = told
    replica.log.own(owner)
    first = produced(b"a", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    marker, _ = build_marker(Marker(1, 0, True, 0), NOW_MS)
    data = placed(first, 0) + placed(produced(b"b", b"c"), 1) + placed(bytearray(marker), 3)
    assert replica.follow(data, 0) == Appended(0, 3, -1)
    assert told.take() == [("begun", 0), ("appended", 1), ("appended", 3), ("appended", 4), ("moved",)]
    assert replica.log.high_watermark == 0, "the owner decides"
    assert replica.log.set_high_watermark(4) == [0]
    replica.log.begin_at(1)
    replica.truncate_to(3)
    # Searches for offsets in the truncated part can continue.
    assert told.take() == [("trimmed",), ("truncated",), ("prepared",), ("settled",)]
    replica.log.end(BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "deleted"))
    assert told.take() == [("ended", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


def test_nobody_decides():
    assert nobody() is None
