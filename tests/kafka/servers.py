"""The two brokers that the client's integration suite runs on, with the same settings."""

from __future__ import annotations

from kafkawire.testing import Broker, BrokerKeywords
from tests.kafka.apache import ApacheKafka

__all__ = ["BROKER_OPTIONS", "Server"]

Server = ApacheKafka | Broker

#: The settings of `ApacheKafka` that the tests rely on.
BROKER_OPTIONS: BrokerKeywords = {
    "group_initial_rebalance_delay_ms": 0,
    "group_min_session_timeout_ms": 1000,
    "group_consumer_assignment_interval_ms": 0,
}
