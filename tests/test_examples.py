"""Every example, started as a user would start it, runs with the reference broker.

Method: run the programs in separate processes, with warnings as errors, and compare their output. The proxy and the
user's own API have separate tests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkawire.sync import Consumer, Producer
from kafkawire.testing import Broker
from tests.guide import ROOT, run

#: Examples that other modules run.
ELSEWHERE = {"container", "decoding_proxy.py", "own_api", "systemd"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(ephemeral=True) as broker:
        yield broker


def example(name: str, *arguments: str) -> list[str]:
    """Run an example, and return the lines that it prints."""
    return run(str(ROOT / "examples" / name), *arguments, folder=ROOT).splitlines()


def test_there_are_no_others() -> None:
    names = {path.name for path in (ROOT / "examples").iterdir() if path.name != "__pycache__"}
    assert names == {"graceful_rebalance.py", "internal_topics.py", "produce_consume.py"} | ELSEWHERE


def test_internal_topics(broker: Broker) -> None:
    """The example prints the broker's records: none at first, then those for a group and a transaction."""
    assert example("internal_topics.py", broker.bootstrap) == []
    with Producer(broker.bootstrap, transactional_id="mover") as producer, producer.transaction():
        producer.send("orders", b"order")
    assert {json.loads(line)["topic"] for line in example("internal_topics.py", broker.bootstrap)} == {
        "__transaction_state"
    }
    with Consumer(broker.bootstrap, "orders", group_id="billing", auto_offset_reset="earliest") as consumer:
        assert next(iter(consumer)).value == b"order"
    found = [json.loads(line) for line in example("internal_topics.py", broker.bootstrap)]
    assert {(each["topic"], each["name"]) for each in found} == {
        ("__consumer_offsets", "GroupMetadata"),
        ("__consumer_offsets", "OffsetCommit"),
        ("__transaction_state", "TransactionLog"),
    }


def test_produce_consume(broker: Broker, tmp_path: Path) -> None:
    """The example can run twice: the second run finds the topic, and its group continues after the first run."""
    first, again = example("produce_consume.py", broker.bootstrap), example("produce_consume.py", broker.bootstrap)
    for lines, start in ((first, 0), (again[1:], 4)):
        offsets = [re.search(r"offset=(\d+)", line) for line in lines]
        assert [found and int(found[1]) for found in offsets] == [start, *range(start, start + 4)], lines
    assert again[0].startswith("TOPIC_ALREADY_EXISTS")


@pytest.mark.thorough
def test_graceful_rebalance(broker: Broker) -> None:
    """`tests/sdk/consumer/test_graceful_rebalance.py` tests the example's functions with each protocol."""
    assert example("graceful_rebalance.py", broker.bootstrap) == ["1000 records, 0 of them more than once"]
