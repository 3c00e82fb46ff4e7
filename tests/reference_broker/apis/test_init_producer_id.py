"""In every version, InitProducerId gives each producer a unique id, even after a restart.

Method: send requests to a broker without sockets, and delay background work where it matters.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkawire.reference_broker.metadata.producer_id_blocks import LocalProducerIdBlocks
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, fail_sometimes
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.reference_broker.transactions.producer_ids import ProducerIds
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.transaction_of_one import Transacting
from tests.reference_broker.broker_bench import BrokerBench, versions_of


@pytest.mark.parametrize("version", versions_of(ApiKey.INIT_PRODUCER_ID))
def test_every_version(bench: BrokerBench, version: int) -> None:
    for expected in (0, 1):
        answer = bench.ask(InitProducerIdRequest(None), version)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (ErrorCode.NONE, expected, 0)


def test_no_id_is_given_twice(bench: BrokerBench) -> None:
    given = [bench.ask(InitProducerIdRequest(None)).producer_id for _ in range(1500)]
    bench.restart()
    given += [bench.ask(InitProducerIdRequest(None)).producer_id for _ in range(3)]
    bench.crash()
    given += [bench.ask(InitProducerIdRequest(None)).producer_id for _ in range(3)]
    assert len(set(given)) == len(given)
    assert given == sorted(given)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (InitProducerIdRequest(None, producer_id=7), ErrorCode.INVALID_REQUEST),
        (InitProducerIdRequest(None, producer_epoch=7), ErrorCode.INVALID_REQUEST),
        (InitProducerIdRequest(None, producer_id=7, producer_epoch=7), ErrorCode.NONE),
        (InitProducerIdRequest(""), ErrorCode.INVALID_REQUEST),
        (InitProducerIdRequest("transaction", 1000), ErrorCode.NOT_COORDINATOR),
    ],
)
def test_answers(bench: BrokerBench, request_: InitProducerIdRequest, code: ErrorCode) -> None:
    answer = bench.ask(request_)
    assert answer.error_code == code
    assert (answer.producer_id, answer.producer_epoch) == ((0, 0) if code == ErrorCode.NONE else (-1, -1))


@pytest.mark.parametrize("version", [3, 4, 5])
def test_fenced_producers(bench: BrokerBench, version: int) -> None:
    x = Transacting(bench)
    x.init()
    requests = [InitProducerIdRequest("x", 60_000, *producer) for producer in (x.producer, (99, 0))]
    requests.append(InitProducerIdRequest("x", 2**31 - 1))
    answers = [bench.ask(request, version) for request in requests]
    fenced = ErrorCode.INVALID_PRODUCER_EPOCH if version < 4 else ErrorCode.PRODUCER_FENCED
    assert [answer.error_code for answer in answers] == [fenced, fenced, ErrorCode.INVALID_TRANSACTION_TIMEOUT]
    assert {(answer.producer_id, answer.producer_epoch) for answer in answers} == {(-1, -1)}


def test_a_response_waits_for_the_disk(bench: BrokerBench) -> None:
    held: list[tuple[Callable[[], None], Callable[[Exception | None], None]]] = []
    services = LogServices(bench.disk, lambda *work: held.append(work))
    blocks = LocalProducerIdBlocks(bench.core.directory.producer_ids, services)
    bench.use(producer_ids=ProducerIds(blocks))
    waiting = bench.ask(InitProducerIdRequest(None))
    assert isinstance(waiting, DelayedOperation)
    ((work, done),) = held
    work()
    assert waiting.response is None
    done(None)
    assert waiting.response is not None


def test_a_reservation_that_fails_gives_no_ids_and_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk()
    bench = BrokerBench(disk)
    disk.plan = fail_sometimes(1, 1.0)
    for _ in range(3):
        assert bench.ask(InitProducerIdRequest(None)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert caplog.text.count("could not reserve producer ids") == 1
    disk.plan = None
    assert not bench.ask(InitProducerIdRequest(None)).error_code


def test_a_producer_that_asks_again_keeps_its_id(bench: BrokerBench) -> None:
    bench.ask(InitProducerIdRequest(None))  # later ids differ from all epochs
    first = Transacting(bench)
    producer_id, epoch = first.producer
    assert producer_id != epoch
    again = bench.ask(InitProducerIdRequest("x", 60_000, producer_id, epoch), 5)
    assert (again.error_code, again.producer_id, again.producer_epoch) == (ErrorCode.NONE, producer_id, epoch + 1)
