"""The online conformance suite finds no fault with Apache Kafka: what it expects is what Kafka does.

Method: every API, version and broken frame of the suite against a real node.
"""

from __future__ import annotations

from kafkawire.conformance.broker_suite import BrokerSuite
from kafkawire.conformance.requests import Names
from tests.kafka.apache import ApacheKafka


def test_no_failures(kafka: ApacheKafka) -> None:
    host, _, port = kafka.bootstrap.partition(":")
    suites = list(BrokerSuite(host, int(port), Names()).run())
    failures = [f"{suite.name}: {failure.case}: {failure.reason}" for suite in suites for failure in suite.failures]
    assert failures == []
    assert sum(suite.passed for suite in suites) > 400
