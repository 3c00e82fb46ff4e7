"""A configuration change is made where the resource is stored, and is reported once it takes effect.

Method: use a broker without sockets whose background work waits; `config_cases.py` covers the answers, and
`tests/reference_broker/apis/test_incremental_alter_configs.py` the effects.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkawire.reference_broker.config.config_operations import Operation
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import AlterConfigOperation, ConfigResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import BrokerBench

SET, APPEND = AlterConfigOperation.SET, AlterConfigOperation.APPEND


@pytest.mark.parametrize(
    ("kind", "name", "config", "value"),
    [
        (ConfigResourceType.TOPIC, "t", "retention.ms", "1000"),
        (ConfigResourceType.BROKER, "1", "log.retention.ms", "1000"),
        (ConfigResourceType.GROUP, "g", "consumer.session.timeout.ms", "50000"),
    ],
)
def test_a_change_counts_when_it_is_durable(kind: ConfigResourceType, name: str, config: str, value: str) -> None:
    bench = BrokerBench(MemoryDisk())
    bench.create("t")
    waiting: list[Callable[[], None]] = []

    def later(work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        def run() -> None:
            work()
            done(None)

        waiting.append(run)

    bench.core.directory.queue._background = later
    outcome: list[BrokerError | None] = []
    bench.core.configs.operate(kind, name, [Operation(config, SET, value)], outcome.append)
    assert outcome == []
    while waiting:
        waiting.pop(0)()
    assert outcome == [None]


def test_lists_of_a_topic_begin_with_what_the_broker_says() -> None:
    bench = BrokerBench(MemoryDisk(), **{"log.cleanup.policy": "compact"})
    bench.create("t")
    outcome: list[BrokerError | None] = []
    operations = [Operation("cleanup.policy", APPEND, "delete")]
    bench.core.configs.operate(ConfigResourceType.TOPIC, "t", operations, outcome.append)
    assert (outcome, bench.core.metadata.image.topics["t"].configs) == ([None], {"cleanup.policy": "compact,delete"})


def test_the_same_again_writes_nothing() -> None:
    bench = BrokerBench(MemoryDisk())
    bench.create("t", retention_ms="1000")
    outcome: list[BrokerError | None] = []
    bench.core.directory.queue.close()  # otherwise the operation would do nothing
    operations = [Operation("retention.ms", SET, "1000")]
    bench.core.configs.operate(ConfigResourceType.TOPIC, "t", operations, outcome.append)
    bench.core.configs.replace(ConfigResourceType.TOPIC, "t", [("retention.ms", "1000")], outcome.append)
    assert outcome == [None, None]


def test_a_topic_that_goes_meanwhile() -> None:
    bench = BrokerBench(MemoryDisk())
    bench.create("t")
    topic = bench.core.metadata.image.topics["t"]
    outcome: list[BrokerError | None] = []
    bench.core.topics.delete(topic, bench.now_ms, lambda error: None)
    with pytest.raises(BrokerError, match="The topic 't' does not exist"):
        bench.core.configs.replace(ConfigResourceType.TOPIC, "t", [], outcome.append)
    bench.core.topics.configure(topic, lambda before: {"retention.ms": "1"}, lambda made: outcome.append(made))  # type: ignore[arg-type]  # the test wants the error
    (error,) = outcome
    assert error is not None
    assert error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
