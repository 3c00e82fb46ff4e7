"""An admin's operations on the reference broker have the same outcomes as on Apache Kafka, item by item.

Method: take the steps of `operation_steps.py`; tests/kafka/test_admin_operations.py takes them on Apache Kafka.
"""

from __future__ import annotations

import asyncio

from kafkawire.testing import Broker
from tests.kafka.servers import BROKER_OPTIONS
from tests.sdk.admin.operation_steps import EXPECTED, run


def test_every_step() -> None:
    with Broker(**BROKER_OPTIONS) as broker:
        outcomes = asyncio.run(run(broker.bootstrap))
    assert {name: outcomes.get(name) for name in EXPECTED} == EXPECTED
    assert outcomes.keys() == EXPECTED.keys()
