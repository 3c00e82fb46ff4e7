"""Apache Kafka and the reference broker refuse the same CreatePartitions requests, with the same messages.

Method: send the cases in `tests/reference_broker/apis/partition_cases.py` to both, each with its own topics.
"""

from __future__ import annotations

import asyncio

import pytest

from kafkawire import NewTopic
from kafkawire.sdk.protocol.messages.create_partitions import CreatePartitionsResponse
from tests.kafka.line import Line, address_of
from tests.kafka.servers import Server
from tests.kafka.topics import create
from tests.reference_broker.apis.partition_cases import CASES, PRESENT, Case, answers_of

VERSION = 3


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_answered(either: Server, case: Case) -> None:
    names = {name: f"partitions-{CASES.index(case)}-{name}" for name in PRESENT}
    topics = [NewTopic(names[name], count) for name, count in PRESENT.items()]
    asyncio.run(create(either.bootstrap, *topics))
    line = Line(address_of(either.bootstrap))
    try:
        response = line.ask(case.request(names), VERSION)
    finally:
        line.frames.close()
    assert isinstance(response, CreatePartitionsResponse)
    assert answers_of(response) == case.expected(names)
