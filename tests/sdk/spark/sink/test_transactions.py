"""A micro-batch is written once, whichever process dies, or an error says why it cannot be written.

Method: without Spark, do the work of tasks and driver on the reference broker, with attempts that overlap, a driver
that stops between any two of its steps, and a micro-batch that is repeated with other rows.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

import pyarrow
from pyspark.sql.types import StructType

from kafkawire.sdk.errors import BrokerError, KafkaWireError, LocalProtocolError, RecordTooLarge
from kafkawire.sdk.spark import connecting
from kafkawire.sdk.spark.sink.columns import WrittenColumns
from kafkawire.sdk.spark.sink.coordinators import Coordinators
from kafkawire.sdk.spark.sink.options import WriteOptions, parse_options
from kafkawire.sdk.spark.sink.task import WriteTask
from kafkawire.sdk.spark.sink.transactions import Prepared, abort, commit, prepare
from kafkawire.sdk.spark.sink.writer import BatchWriter, StreamWriter, Written
from kafkawire.testing import Broker
from tests.sdk.spark.sink.topics import committed, is_open, row_id, written
from tests.thorough import sampled

COLUMNS = WrittenColumns(None, None, None)
#: The errors that are possible for a transaction that is no longer open; they depend on the request.
FENCED = "PRODUCER_FENCED|INVALID_PRODUCER_EPOCH|INVALID_TXN_STATE"


class Query:
    """A query, and its records in the topic `out`.

    Args:
        broker: the broker to which the query writes.
        name: the query's id.
        given: sink options.
    """

    def __init__(self, broker: Broker, name: str = "query", **given: str) -> None:
        self.name = name
        self.servers = broker.bootstrap
        base = {"kafka.bootstrap.servers": broker.bootstrap, "topic": "out", "transactionalIdPrefix": "w"}
        self.options: WriteOptions = parse_options({**base, **given})

    def task(self, batch_id: int, number: int, *values: str) -> Prepared:
        """Run a task, and return its message to the driver."""
        batches = [pyarrow.RecordBatch.from_pydict({"value": [value]}) for value in values]
        prepared = prepare(self.options, COLUMNS, WriteTask(self.name, batch_id, number), batches)
        return pickle.loads(pickle.dumps(prepared))  # type: ignore[no-any-return]  # of the same type

    def tasks(self, batch_id: int, count: int = 3) -> list[Prepared]:
        """Run the tasks of a micro-batch, each with two rows."""
        return [self.task(batch_id, each, f"{batch_id} {each} a", f"{batch_id} {each} b") for each in range(count)]

    def commit(self, prepared: list[Prepared]) -> None:
        commit(self.options, prepared)

    def check(self, expected: list[str]) -> None:
        """Check what readers of committed records see once no transaction is open and no record can follow."""
        assert self._values(written(self.servers, "out")) == sorted(expected)

    def check_open(self, expected: list[str]) -> None:
        """Check what readers of committed records see while stored rows are in open transactions."""
        assert is_open(self.servers, "out")
        assert self._values(committed(self.servers, "out")) == sorted(expected)

    @staticmethod
    def _values(records: list[Any]) -> list[str]:
        return sorted(str(each.value, "utf-8") for each in records)


def expected(*batch_ids: int, count: int = 3) -> list[str]:
    return sorted(f"{batch} {task} {row}" for batch in batch_ids for task in range(count) for row in "ab")


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(ephemeral=True, num_partitions=2) as running:
        yield running


def test_nothing_is_seen_before_the_commit(broker: Broker) -> None:
    query = Query(broker)
    for batch_id in range(3):
        prepared = query.tasks(batch_id)
        query.check_open(expected(*range(batch_id)))
        query.commit(prepared)
        query.check(expected(*range(batch_id + 1)))


def test_a_broker_that_is_away_at_first(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker is unavailable before each of two steps: the task and the commit."""
    query = Query(broker)
    monkeypatch.setattr(connecting, "pause", lambda _: broker.start())
    broker.stop()
    prepared = query.tasks(0)
    broker.stop()
    query.commit(prepared)
    query.check(expected(0))


def test_abort(broker: Broker) -> None:
    query = Query(broker)
    abort(query.options, [])
    prepared = query.tasks(0)
    abort(query.options, prepared)
    query.check([])
    with pytest.raises(BrokerError, match=FENCED):
        query.commit(prepared)
    query.commit(query.tasks(0))
    abort(query.options, prepared)  # too late, but not an error: Spark already has one
    query.check(expected(0))


class Stopped(Exception):
    """Raised at the point where the driver is killed."""


@pytest.mark.parametrize("steps", sampled(range(7), 4))
def test_the_driver_stops_after_any_step(broker: Broker, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps are the work before the first transaction ends, and the end of each transaction."""
    query = Query(broker)
    query.commit(query.tasks(0))
    left = steps

    def step(method: Callable[..., None]) -> Callable[..., None]:
        def counted(*arguments: Any, **named: Any) -> None:
            nonlocal left
            if not left:
                raise Stopped
            left -= 1
            method(*arguments, **named)

        return counted

    def end(self: Coordinators, transactions: Any, *, commits: bool) -> None:
        for each in transactions:  # one at a time, so that the driver can stop between any two
            step(one)(self, [each], commits=commits)

    one = Coordinators.end
    with monkeypatch.context() as patched:
        patched.setattr(Coordinators, "add_offsets", step(Coordinators.add_offsets))
        patched.setattr(Coordinators, "end", end)
        prepared = query.tasks(1, 5)
        if steps < 6:
            with pytest.raises(Stopped):
                query.commit(prepared)
        else:
            query.commit(prepared)
    for left_out in (max(steps - 1, 0), 5):
        repeated = query.tasks(1, 5)
        assert sum(each.uncommitted is None for each in repeated) == left_out
        query.commit(repeated)
        query.check(expected(0) + expected(1, count=5))
    query.commit(query.tasks(2))
    query.check(expected(0, 2) + expected(1, count=5))


def test_a_later_attempt_fences_the_earlier(broker: Broker) -> None:
    query = Query(broker)
    first = query.tasks(0)
    second = query.task(0, 1, "0 1 a", "0 1 b")
    with pytest.raises(BrokerError, match=FENCED):
        query.commit(first)
    # Task 0 has been committed, and Spark repeats the micro-batch.
    query.commit(query.tasks(0))
    query.check(expected(0))
    with pytest.raises(KafkaWireError):
        query.commit([second])
    query.check(expected(0))


def partly_committed(query: Query) -> None:
    """Commit the second of three tasks but not the others, as if the driver had been killed."""
    prepared = query.tasks(0)
    # The other transactions are fenced, so the commit stops at them, and readers do not wait for them.
    query.task(0, 0)
    query.task(0, 2)
    with pytest.raises(BrokerError):
        query.commit([prepared[1], prepared[2], prepared[2]])
    query.check(["0 1 a", "0 1 b"])


def test_other_rows_of_a_part_that_is_committed(broker: Broker) -> None:
    query = Query(broker)
    partly_committed(query)
    with pytest.raises(
        LocalProtocolError, match="query query, micro-batch 0, task 1: 2 rows have already been committed"
    ):
        query.task(0, 1, "0 1 a", "0 1 c")
    assert query.task(0, 1, "0 1 b", "0 1 a").uncommitted is None, "the rows' order must not matter"


def test_another_number_of_tasks(broker: Broker) -> None:
    query = Query(broker)
    partly_committed(query)
    repeated = query.tasks(0, 4)
    with pytest.raises(
        LocalProtocolError, match="part of it has already been committed with 3 tasks, but now there are 4"
    ):
        query.commit(repeated)
    query.check_open(["0 1 a", "0 1 b"])
    abort(query.options, repeated)
    query.check(["0 1 a", "0 1 b"])


def test_another_number_of_tasks_before_anything_is_committed(broker: Broker) -> None:
    query = Query(broker)
    query.tasks(0, 4)
    query.commit(query.tasks(0, 5))
    query.check(expected(0, count=5))


def test_a_checkpoint_that_was_set_back(broker: Broker) -> None:
    query = Query(broker)
    query.commit(query.tasks(5))
    with pytest.raises(
        LocalProtocolError, match="micro-batch 5 has already been committed; was the checkpoint rolled back"
    ):
        query.task(4, 0, "v")


def test_another_query_with_the_same_prefix(broker: Broker) -> None:
    """A new checkpoint begins at micro-batch 0 again, and fences the old query's leftover transactions."""
    old, new = Query(broker, "old"), Query(broker, "new")
    old.commit(old.tasks(0))
    left = old.tasks(1)
    new.commit(new.tasks(0))
    with pytest.raises(BrokerError, match=FENCED):
        old.commit(left)
    new.check(expected(0) * 2)


def test_tasks_without_rows(broker: Broker) -> None:
    query = Query(broker)
    query.commit([query.task(0, 0), query.task(0, 1)])
    query.commit([query.task(1, 0), query.task(1, 1, "v"), query.task(1, 2)])
    query.check(["v"])


def test_a_query_that_is_no_stream(broker: Broker) -> None:
    """All of its rows are written, since no other run has the same id."""
    query = Query(broker)
    for _ in range(2):
        prepared = query.tasks(-1)
        query.commit(prepared)
    query.check(expected(-1) * 2)
    with Coordinators(query.options.producer) as coordinators:
        assert coordinators.committed("w-commit") == coordinators.committed("w-0") == {}


def test_a_row_that_cannot_be_written(broker: Broker) -> None:
    """The task aborts its transaction, so readers do not wait for it."""
    query = Query(broker)
    with pytest.raises(KafkaWireError) as caught:
        query.task(0, 0, "good", "v" * 3_000_000)
    assert isinstance(caught.value, RecordTooLarge)
    query.commit([query.task(0, 1, "later")])
    query.check(["later"])


def test_row_ids(broker: Broker) -> None:
    query = Query(broker, dedupeHeaders="true")
    query.commit(query.tasks(7, 1))
    assert [row_id(each) for each in committed(broker.bootstrap, "out")] == ["query/7/0/0", "query/7/0/1"]


def test_another_key_of_a_part_that_is_committed(broker: Broker) -> None:
    query = Query(broker)

    def task(number: int, key: str) -> Prepared:
        rows = [pyarrow.RecordBatch.from_pydict({"key": [key], "value": ["v"]})]
        return prepare(query.options, WrittenColumns("key", None, None), WriteTask(query.name, 0, number), rows)

    query.commit([task(0, "a")])
    assert task(0, "a").uncommitted is None
    with pytest.raises(LocalProtocolError, match="w-0: query query, micro-batch 0, task 0: 1 rows"):
        task(0, "b")


def test_another_topic_of_a_part_that_is_committed(broker: Broker) -> None:
    options = Query(broker).options._replace(topic=None)

    def task(topic: str) -> Prepared:
        rows = [pyarrow.RecordBatch.from_pydict({"topic": [topic], "value": ["v"]})]
        return prepare(options, COLUMNS, WriteTask("query", 0, 0), rows)

    commit(options, [task("a")])
    assert task("a").uncommitted is None
    with pytest.raises(LocalProtocolError, match="w-0: query query, micro-batch 0, task 0: 1 rows"):
        task("b")


def test_the_first_transaction_is_ended_alone(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first transaction stores the number of tasks in the micro-batch, so none may be committed before it."""
    ended: list[list[str]] = []

    def end(self: Coordinators, transactions: Any, *, commits: bool) -> None:
        ended.append([each.transactional_id for each in transactions])
        original(self, transactions, commits=commits)

    original = Coordinators.end
    monkeypatch.setattr(Coordinators, "end", end)
    query = Query(broker)
    query.commit(query.tasks(0))
    assert ended == [["w-0"], ["w-1", "w-2"]]


def test_writers_abort(broker: Broker) -> None:
    """Transactions that a failed query has prepared can no longer be committed."""
    query = Query(broker)
    given = {"kafka.bootstrap.servers": broker.bootstrap, "topic": "out", "transactionalIdPrefix": "w"}
    schema = StructType().add("value", "string")
    prepared = query.tasks(0)
    StreamWriter(given, schema).abort([Written(each) for each in prepared[:1]], 0)
    BatchWriter(given, schema).abort([None, *(Written(each) for each in prepared[1:])])
    for each in prepared:
        with pytest.raises(BrokerError, match=FENCED):
            query.commit([each])
    query.check([])
