"""The client of a fetch session always has the information that a full fetch would give it.

Goal: for each partition in the session, a response has all records, and all other state that is new to the client. A
fetch waits only while there is nothing to read. A client that has lost its session begins a new one, and is sent
everything again.

Method: run stories of produced and deleted records, transactions, created and deleted topics, partitions that the
client adds and forgets, other clients that evict the session, and passing time. Compare each response with the response
to a fetch without a session, and with the client's earlier knowledge.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.protocol.messages.delete_records import DeleteRecordsRequest
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from kafkawire.sdk.protocol.tables.enums import FINAL_FETCH_SESSION_EPOCH, NO_FETCH_SESSION_ID
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import walk
from tests.reference_broker.broker_bench import BrokerBench
from tests.reference_broker.storage.produced_batches import produced
from tests.sdk.stories import Kinds, Step, run_stories, steps

BY_NAME = 12
WAIT_MS = 500
PRODUCER_ID = 7

#: A topic and a partition. `a` has two partitions and stays; `b` has one, and is deleted and recreated.
Place = tuple[str, int]

PLACES = [("a", 0), ("a", 1), ("b", 0)]

KINDS: Kinds = {
    "produce": (st.sampled_from(PLACES),),
    "produce in transaction": (st.sampled_from(PLACES[:2]),),
    "end transaction": (st.booleans(),),
    "delete records": (st.sampled_from(PLACES[:2]),),
    "create": (),
    "delete": (),
    "want": (st.sampled_from([*PLACES, ("a", 5)]), st.sampled_from([0, 0, 1, 99])),
    "forget": (st.sampled_from(PLACES),),
    "fetch": (st.booleans(),),
    "fetch again": (st.booleans(),),
    "wait": (),
    "choose": (st.integers(0, 1),),
    "others": (st.integers(1, 3),),
    "pass": (st.sampled_from([1, WAIT_MS, 130_000]),),
}


class Scene:
    """A broker with room for one session, and a client that keeps its session for as long as it can.

    Attributes:
        wanted: the client's offsets.
        known: the error code, high watermark and log start offset that the client last received.
    """

    def __init__(self) -> None:
        self.bench = BrokerBench(
            MemoryDisk(), max_incremental_fetch_session_cache_slots=1, transaction_partition_verification_enable=False
        )
        self.bench.create("a", 2)
        self.bench.create("b")
        self.wanted: dict[Place, int] = {}
        self.isolation_level = 0
        self.waiting: DelayedOperation | None = None
        self._sequences: dict[Place, int] = {}
        self._open: set[Place] = set()
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.session_id, self.epoch = NO_FETCH_SESSION_ID, 0
        self.known: dict[Place, tuple[int, int, int]] = {}
        self.changed = set(self.wanted)
        self.forgotten: set[Place] = set()

    def act(self, step: Step) -> None:
        name, *arguments = step
        getattr(self, f"_{name.replace(' ', '_')}")(*arguments)
        if self.waiting is not None:
            if self.waiting.response is not None:
                response, self.waiting = self.bench.through(self.waiting.response, BY_NAME), None
                self._take(response, is_reading=False)
            else:
                self._check_nothing_to_read()

    # Steps of other clients.

    def _produce(self, place: Place) -> None:
        self.bench.produce(produced(b"v"), *place)

    def _produce_in_transaction(self, place: Place) -> None:
        sequence = self._sequences.get(place, 0)
        data = produced(b"t", is_transactional=True, producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=sequence)
        topic = ProduceRequest.TopicProduceData(
            place[0], partition_data=[ProduceRequest.PartitionProduceData(place[1], data)]
        )
        response = self.bench.ask(ProduceRequest("x", -1, 1000, [topic]), 9)
        assert not response.responses[0].partition_responses[0].error_code
        self._sequences[place] = sequence + 1
        self._open.add(place)

    def _end_transaction(self, is_commit: bool) -> None:
        Topic = WriteTxnMarkersRequest.WritableTxnMarkerTopic
        topics = [Topic(name, [number]) for name, number in sorted(self._open)]
        self._open.clear()
        marker = WriteTxnMarkersRequest.WritableTxnMarker(PRODUCER_ID, 0, is_commit, topics)
        self.bench.ask(WriteTxnMarkersRequest([marker]))

    def _delete_records(self, place: Place) -> None:
        partition = DeleteRecordsRequest.DeleteRecordsPartition(place[1], -1)
        self.bench.ask(DeleteRecordsRequest([DeleteRecordsRequest.DeleteRecordsTopic(place[0], [partition])]))

    def _create(self) -> None:
        if "b" not in self.bench.store.topics:
            self.bench.create("b")

    def _delete(self) -> None:
        self.bench.ask(DeleteTopicsRequest([DeleteTopicsRequest.DeleteTopicState("b")], timeout_ms=1))

    def _others(self, partitions: int) -> None:
        """Let another client begin a session."""
        places = [("a", number) for number in range(partitions)]
        self.bench.ask(self._request(dict.fromkeys(places, 0), epoch=0), BY_NAME)

    def _pass(self, milliseconds: int) -> None:
        self.bench.advance(milliseconds)

    # Steps of the client.

    def _want(self, place: Place, offset: int) -> None:
        if self.waiting is None:
            self.wanted[place] = offset
            self.changed.add(place)
            self.forgotten.discard(place)

    def _forget(self, place: Place) -> None:
        if self.waiting is None and self.wanted.pop(place, None) is not None:
            self.changed.discard(place)
            self.known.pop(place, None)
            self.forgotten.add(place)

    def _choose(self, isolation_level: int) -> None:
        if self.waiting is None:
            self.isolation_level = isolation_level

    def _fetch(self, is_reading: bool) -> None:
        if self.waiting is None:
            self._take(self._ask(0), is_reading)

    _fetch_again = _fetch

    def _wait(self) -> None:
        if self.waiting is None:
            response = self._ask(WAIT_MS)
            if isinstance(response, DelayedOperation):
                self.waiting = response
            else:
                self._take(response, is_reading=False)

    def _ask(self, max_wait_ms: int) -> Any:
        offsets = {place: self.wanted[place] for place in sorted(self.changed if self.epoch else self.wanted)}
        request = self._request(offsets, self.epoch, self.session_id, max_wait_ms)
        Forgotten = FetchRequest.ForgottenTopic
        request.forgotten_topics_data = [Forgotten(name, partitions=[number]) for name, number in self.forgotten]
        self.changed.clear()
        self.forgotten.clear()
        return self.bench.ask(request, BY_NAME)

    def _request(
        self, offsets: dict[Place, int], epoch: int, session_id: int = NO_FETCH_SESSION_ID, max_wait_ms: int = 0
    ) -> FetchRequest:
        topics: dict[str, FetchRequest.FetchTopic] = {}
        for (name, number), offset in offsets.items():
            topic = topics.setdefault(name, FetchRequest.FetchTopic(name, partitions=[]))
            partition = FetchRequest.FetchPartition(number, fetch_offset=offset, partition_max_bytes=2**20)
            topic.partitions = [*topic.partitions, partition]
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            isolation_level=self.isolation_level,
            session_id=session_id,
            session_epoch=epoch,
            topics=list(topics.values()),
        )

    def _take(self, response: FetchResponse, is_reading: bool) -> None:
        """Compare a response with the expected one, and continue from it, with a new session if this one is gone."""
        if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            assert self.epoch, "a new session is never refused"
            self._begin_anew()
            self._take(self._ask(0), is_reading)
            return
        assert response.error_code == ErrorCode.NONE
        told_of = _by_place(response)
        assert told_of.keys() <= self.wanted.keys()
        for place, data in self._truth().items():
            found = told_of.get(place)
            if found is not None:
                assert _seen(found) == _seen(data)
                assert bytes(found.records or b"") == bytes(data.records or b"")
                self.known[place] = _seen(data)
            else:
                assert not data.error_code, f"{place}: the error must be repeated in each response"
                assert not data.records, f"{place} has records"
                assert self.known[place] == _seen(data), f"{place} has changed"
            if is_reading and data.records:
                self.wanted[place] = max(batch.next_offset for batch in walk(bytes(data.records)))
                self.changed.add(place)
        if response.session_id == NO_FETCH_SESSION_ID:
            self._begin_anew()
        else:
            self.session_id, self.epoch = response.session_id, self.epoch + 1

    def _truth(self) -> dict[Place, FetchResponse.PartitionData]:
        """Return the response to a fetch without a session."""
        return _by_place(self.bench.ask(self._request(self.wanted, FINAL_FETCH_SESSION_EPOCH), BY_NAME))

    def _check_nothing_to_read(self) -> None:
        for place, data in self._truth().items():
            assert not data.records, f"{place} has records, but the fetch waits"


def _by_place(response: FetchResponse) -> dict[Place, FetchResponse.PartitionData]:
    return {(topic.topic, data.partition_index): data for topic in response.responses for data in topic.partitions}


def _seen(data: FetchResponse.PartitionData) -> tuple[int, int, int]:
    return data.error_code, data.high_watermark, data.log_start_offset


@run_stories(60)
@given(steps(KINDS, longest=30))
def test_responses_and_what_the_client_knows_add_up_to_a_full_fetch(story: list[Step]) -> None:
    scene = Scene()
    scene.act(("want", ("a", 0), 0))
    for step in [*story, ("pass", WAIT_MS), ("fetch", True), ("fetch", False)]:
        scene.act(step)
