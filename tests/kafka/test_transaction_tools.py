"""Kafka's command-line tools show and end the reference broker's transactions as they do Kafka's, and read their log.

Method: leave a transaction open with our producer, commit one and abort one; run each tool to completion.
"""

from __future__ import annotations

import asyncio
import re

import pytest

from kafkawire import NewTopic
from kafkawire.sync import Consumer, Producer
from tests.kafka import topics
from tests.kafka.cleaning import until
from tests.kafka.dumping import dump
from tests.kafka.servers import Server
from tests.kafka.tools import run

#: Each run of a tool starts a JVM, and some tests need a dozen.
pytestmark = pytest.mark.timeout(400)

TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"


def table(text: str) -> list[dict[str, str]]:
    """Return the rows of a table that a tool prints."""
    head, *rows = [re.split(r"\s*\t\s*|\s{2,}", line.strip()) for line in text.strip().splitlines()]
    return [dict(zip(head, row, strict=False)) for row in rows]


def create(server: Server, topic: str) -> None:
    """Create a one-partition topic."""
    asyncio.run(topics.create(server.bootstrap, NewTopic(topic, 1, 1)))


def states(server: Server) -> dict[str, str]:
    """Return the state of each transaction, as the tool shows it."""
    return {row["TransactionalId"]: row["TransactionState"] for row in table(run(server, TRANSACTIONS, "list"))}


def writer(server: Server, topic: str) -> dict[str, str]:
    """Return the tool's description of a topic's only producer."""
    (row,) = table(run(server, TRANSACTIONS, "describe-producers", "--topic", topic, "--partition", "0"))
    return row


def test_transactions(either: Server) -> None:
    topic = "transaction-tools"
    create(either, topic)
    with Producer(either.bootstrap, transactional_id=topic) as producer:
        producer.begin_transaction()
        producer.send(topic, b"open").result()
        assert states(either)[topic] == "Ongoing"
        (described,) = table(run(either, TRANSACTIONS, "describe", "--transactional-id", topic))
        assert (described["CoordinatorId"], described["TransactionState"]) == ("1", "Ongoing")
        assert described["TopicPartitions"] == f"{topic}-0"
        shown = writer(either, topic)
        assert (shown["ProducerId"], shown["CurrentTransactionStartOffset"]) == (described["ProducerId"], "0")
        # However old the transaction is, a coordinator knows it, so the tool does not consider it hanging.
        hanging = ("find-hanging", "--broker-id", "1", "--max-transaction-timeout", "0")
        assert table(run(either, TRANSACTIONS, *hanging)) == []
        producer.commit_transaction()
        until(lambda: states(either)[topic] == "CompleteCommit", "its markers are written after the answer")
        assert writer(either, topic)["CurrentTransactionStartOffset"] == "None"
        producer.begin_transaction()
        producer.send(topic, b"ended by hand").result()
        place = ("--topic", topic, "--partition", "0", "--start-offset", "2")
        assert run(either, TRANSACTIONS, "abort", *place) == ""
        assert writer(either, topic)["CurrentTransactionStartOffset"] == "None"
    with Consumer(either.bootstrap, topic, auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
        assert [each.value for each in consumer.records(stop_at_end=True)] == [b"open"]


def test_dump(either: Server) -> None:
    topic = "transaction-dump"
    create(either, topic)
    with Producer(either.bootstrap, transactional_id=topic) as producer:
        with producer.transaction():
            producer.send(topic, b"kept").result()
        producer.begin_transaction()
        producer.send(topic, b"dropped").result()
        producer.abort_transaction()
        assert states(either)[topic] == "CompleteAbort"
    logs = sorted(path for path in either.data_dir.glob("__transaction_state-*/*.log") if path.stat().st_size)
    text = dump("--transaction-log-decoder", files=logs)
    key = re.escape(f'key: {{"type":"0","data":{{"transactionalId":"{topic}"}}}}')
    steps = re.findall(
        key + r' payload: .*"transactionStatus":(\d),"transactionPartitions":(\S+),"transactionLast', text
    )
    partitions = f'[{{"topic":"{topic}","partitionIds":[0]}}]'
    assert steps == [
        *[("0", "null"), ("1", partitions), ("2", partitions), ("4", "[]")],
        *[("1", partitions), ("3", partitions), ("5", "[]")],
    ]
    text = dump("--deep-iteration", "--print-data-log", files=sorted(either.data_dir.glob(f"{topic}-0/*.log")))
    assert re.findall(r"payload: (.*)|endTxnMarker: (\w+) coordinatorEpoch: 0", text) == [
        ("kept", ""),
        ("", "COMMIT"),
        ("dropped", ""),
        ("", "ABORT"),
    ]
