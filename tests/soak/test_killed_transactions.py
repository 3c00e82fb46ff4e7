"""Every transaction is either complete or absent, and the check notices one that is neither.

Method: run some transactions on a separate broker, and change the notes about them before the check.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.sdk.protocol.tables.enums import CoordinatorType
from tools.soak.broker_process import BrokerProcess, RawClient
from tools.soak.killed_transactions import TOPICS, Failure, Transactor

WORKED = 12


@pytest.fixture(scope="module")
def client() -> Iterator[RawClient]:
    with BrokerProcess(None) as broker, RawClient(broker.bootstrap) as client:
        client.create(dict.fromkeys(TOPICS, 8))
        for kind in (CoordinatorType.GROUP, CoordinatorType.TRANSACTION):
            client.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=["t"]), 4, FindCoordinatorResponse)
        yield client


def worked(client: RawClient, partition: int) -> Transactor:
    transactor = Transactor(f"t-{partition}", partition)
    transactor.begin(client)
    for _ in range(WORKED):
        transactor.work(client, Random(transactor.sent))
    return transactor


def test_committed_ones_are_there_and_no_others(client: RawClient) -> None:
    transactor = worked(client, 0)
    committed = len(transactor.committed)
    assert 0 < committed < transactor.sent == WORKED
    transactor.check(client)
    assert transactor.kept == committed
    transactor.check(client)
    assert transactor.kept == committed


def test_what_is_wrong_is_noticed(client: RawClient) -> None:
    transactor = worked(client, 1)
    transactor.committed.add(1_000)
    with pytest.raises(Failure, match="1 committed transactions are lost, including 1000"):
        transactor.check(client)

    transactor = worked(client, 2)
    transactor.undecided.clear()
    with pytest.raises(Failure, match="exists, although it was not committed"):
        transactor.check(client)

    transactor = worked(client, 3)
    transactor._last = WORKED
    with pytest.raises(Failure, match=f"follows transaction {WORKED}"):
        transactor.check(client)

    transactor = worked(client, 4)
    transactor._checked[TOPICS[0]] = 3
    with pytest.raises(Failure, match=f"{TOPICS[0]} contains"):
        transactor.check(client)

    transactor = worked(client, 5)
    transactor._commit_offset(client, 5_000)
    transactor._named.clear()
    transactor.begin(client)
    transactor.check(client)  # it was not committed, so it is not counted

    with pytest.raises(Failure, match="was assigned twice"):
        transactor._is(transactor._producer)


def test_open_transaction_is_noticed(client: RawClient) -> None:
    transactor = Transactor("t-6", 6)
    transactor.begin(client)
    transactor.work(client, Random(0))
    transactor.check(client)
    end = transactor._ask

    def leave_open(client: RawClient, request: object, *arguments: object) -> object:
        if type(request).__name__ == "EndTxnRequest":
            raise ConnectionError
        return end(client, request, *arguments)  # type: ignore[arg-type]  # what `work` gives

    transactor._ask = leave_open  # type: ignore[method-assign]  # simulates a connection that ends
    with pytest.raises(ConnectionError):
        transactor.work(client, Random(0))
    with pytest.raises(Failure, match="a transaction is hanging"):
        transactor.check(client)
