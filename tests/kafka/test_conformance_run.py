"""The online conformance suite finds no fault in Apache Kafka, so its expectations are right, and none in the reference
broker.

Method: send every API, version and broken frame in the suite to both.
"""

from __future__ import annotations

import pytest

from kafkawire.conformance.broker_suite import BrokerSuite
from kafkawire.conformance.requests import Names
from kafkawire.testing import Broker
from tests.kafka.apache import ApacheKafka


@pytest.mark.smoke
@pytest.mark.parametrize(("fixture", "cases"), [("kafka", 400), ("broker", 150)])
def test_no_failures(request: pytest.FixtureRequest, fixture: str, cases: int) -> None:
    node: ApacheKafka | Broker = request.getfixturevalue(fixture)
    host, _, port = node.bootstrap.partition(":")
    suites = list(BrokerSuite(host, int(port), Names()).run())
    failures = [f"{suite.name}: {failure.case}: {failure.reason}" for suite in suites for failure in suite.failures]
    assert failures == []
    assert sum(suite.passed for suite in suites) > cases
