"""Cases about transactions and their producers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kafkawire import KafkaWireError, TopicPartition, sync
from tests.kafka.admin_table.cases import Masks, Scene, java, make, ours, tool

__all__ = ["SCENES"]

X0, X1, X7 = (["txn", number] for number in (0, 1, 7))
P0, NONE = TopicPartition("txn", 0), TopicPartition("gone", 0)

#: A broker takes producer ids from blocks.
IDS: Masks = (
    (r'("[pP]roducer_?[iI]d": )\d+', r"\1ID"),
    (r"\bproducer_id=\d+", "producer_id=ID"),
    (r" *\\t", r"\\t"),  # the columns of a table are as wide as the widest value
    (r" +\"", '"'),
    # The columns ProducerId and TransactionDurationMs.
    (r'"\d+(\\t-?\d+\\t)', r'"ID\1'),
    (r'("[a-z-]+\\t1\\t)\d+', r"\1ID"),
    (r"(TIME\\t)\d+(?=\\t)", r"\1DURATION"),
)


@contextmanager
def ongoing(bootstrap: str) -> Iterator[None]:
    """Keep a transaction open in partition 0, and have committed one in partition 1."""
    with (
        sync.Producer(bootstrap, transactional_id="x") as producer,
        sync.Producer(bootstrap, transactional_id="y") as other,
    ):
        with other.transaction():
            other.send("txn", b"committed", partition=1)
        producer.begin_transaction()
        producer.send("txn", b"open", partition=0).result()
        yield
        with suppress(KafkaWireError):  # a case has fenced the producer
            producer.abort_transaction()


def names(*given: str) -> list[list[list[str]]]:
    """Return the paths of the descriptions of transactional ids."""
    return [[["description", name]] for name in given]


SCENES = [
    Scene("transactions: a topic", [java("with two partitions", "createTopics", [[["txn", 2, 1]]], ask=["all"])]),
    Scene(
        "transactions: open and complete ones",
        [
            java("open", "describeTransactions", [["x"]], ask=names("x"), masks=IDS),
            java("complete", "describeTransactions", [["y"]], ask=names("y"), masks=IDS),
            java("unknown", "describeTransactions", [["gone"]], ask=names("gone")),
            java("empty id", "describeTransactions", [[""]], ask=names("")),
            java("nothing", "describeTransactions", [[]], ask=["all"]),
            java("all", "listTransactions", [], ask=["all"], masks=IDS),
            java("ongoing", "listTransactions", [], ask=["all"], masks=IDS, filterStates=["ONGOING"]),
            java(
                "two states", "listTransactions", [], ask=["all"], masks=IDS, filterStates=["EMPTY", "COMPLETE_COMMIT"]
            ),
            java("unknown state", "listTransactions", [], ask=["all"], filterStates=["UNKNOWN"]),
            java("producers", "listTransactions", [], ask=["all"], filterProducerIds=[999_999]),
            java("duration", "listTransactions", [], ask=["all"], filterOnDuration=3_600_000),
            java("pattern", "listTransactions", [], ask=["all"], masks=IDS, filterOnTransactionalIdPattern="[x]"),
            java("other pattern", "listTransactions", [], ask=["all"], filterOnTransactionalIdPattern="xx"),
            java("wrong pattern", "listTransactions", [], ask=["all"], filterOnTransactionalIdPattern="("),
            java("by broker", "listTransactions", [], ask=["allByBrokerId"], masks=IDS),
            java("open", "describeProducers", [[X0]], ask=["all"], masks=IDS),
            java("complete", "describeProducers", [[X1]], ask=["all"], masks=IDS),
            java("on a broker", "describeProducers", [[X0]], ask=["all"], masks=IDS, brokerId=1),
            java("on an unknown broker", "describeProducers", [[X0]], ask=["all"], brokerId=9, timeoutMs=1500),
            java("unknown topic", "describeProducers", [[["gone", 0]]], ask=["all"], timeoutMs=1500),
            java("unknown partition", "describeProducers", [[X7]], ask=["all"], timeoutMs=1500),
            java("committed", "listOffsets", [[[X0, make("latest")]]], ask=["all"], made=["READ_COMMITTED"]),
            java("uncommitted", "listOffsets", [[[X0, make("latest")]]], ask=["all"]),
            ours("some", "describe_transactions", "x", "y", "gone", masks=IDS),
            ours("all", "list_transactions", masks=IDS),
            ours("states", "list_transactions", states=["Ongoing"], masks=IDS),
            ours("unknown state", "list_transactions", states=["Odd"]),
            ours("wrong pattern", "list_transactions", pattern="("),
            ours("some", "describe_producers", P0, NONE, masks=IDS, within_ms=1_000),
            ours("none", "find_hanging_transactions", "txn", silent_for_ms=0),
            tool("describe", "transactions", "describe --transactional-id x", masks=IDS),
            tool("describe unknown", "transactions", "describe --transactional-id gone"),
            tool("describe producers", "transactions", "describe-producers --topic txn --partition 0", masks=IDS),
            tool(
                "describe producers of a broker",
                "transactions",
                "describe-producers --topic txn --partition 0 --broker-id 1",
                masks=IDS,
            ),
            tool("list", "transactions", "list", masks=IDS, unordered=True),
            tool("list a duration", "transactions", "list --duration-filter 3600000", masks=IDS),
            tool("list a pattern", "transactions", "list --transactional-id-pattern x", masks=IDS),
            tool("list a wrong pattern", "transactions", "list --transactional-id-pattern ("),
            tool("find hanging", "transactions", "find-hanging --topic txn", masks=IDS),
            tool("find hanging on a broker", "transactions", "find-hanging --broker-id 1", masks=IDS),
            tool("find hanging everywhere", "transactions", "find-hanging"),
            tool("abort with nothing", "transactions", "abort --topic txn --partition 0"),
            tool("abort an unknown start", "transactions", "abort --topic txn --partition 0 --start-offset 77"),
            tool("force with an unknown id", "transactions", "forceTerminateTransaction --transactionalId new"),
            java("unknown producer", "abortTransaction", [[X0, 777_777, 0, 0]], ask=["all"]),
            java("unknown topic", "abortTransaction", [[["gone", 0], 1, 0, 0]], ask=["all"], timeoutMs=1500),
            java("negative producer", "abortTransaction", [[X0, -1, 0, 0]], ask=["all"]),
            java("new id", "fenceProducers", [["new"]], ask=["all", [["epochId", "new"]]]),
            java("nothing", "fenceProducers", [[]], ask=["all"]),
            java("open", "fenceProducers", [["x"]], ask=["all"]),
            java("afterwards", "describeTransactions", [["x"]], ask=[[["description", "x"], "state"]]),
            java("complete", "forceTerminateTransaction", ["y"], ask=["result"]),
            java("unknown", "forceTerminateTransaction", ["none"], ask=["result"]),
            ours("some", "fence_producers", "new", "another", masks=IDS),
            ours("unknown", "force_terminate_transaction", "none-yet"),
            ours("unknown topic", "abort_transaction", NONE, producer_id=1, producer_epoch=0, within_ms=1_000),
        ],
        ongoing,
    ),
]
