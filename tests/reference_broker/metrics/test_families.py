"""The names of metrics follow one rule from Kafka's MBeans, and the catalogue is sound.

Method: compare names for MBeans of Kafka's documentation, and check every family of the catalogue.
"""

from __future__ import annotations

import re

import pytest

from kafkawire.reference_broker.metrics.families import FAMILIES, Kind, name_of
from tests.guide import ROOT


@pytest.mark.parametrize(
    ("mbean", "attribute", "name"),
    [
        ("kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec", "", "kafka_server_broker_topic_metrics_bytes_in"),
        (
            "kafka.network:type=RequestMetrics,name=TotalTimeMs,request=*",
            "",
            "kafka_network_request_metrics_total_time_seconds",
        ),
        (
            "kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count",
            "",
            "kafka_log_log_cleaner_manager_uncleanable_partitions_count",
        ),
        (
            "kafka.server:type=socket-server-metrics,listener=*",
            "connection-count",
            "kafka_server_socket_server_metrics_connection_count",
        ),
        (
            "kafka.controller:type=KafkaController,name=ActiveControllerCount",
            "",
            "kafka_controller_kafka_controller_active_controller_count",
        ),
    ],
)
def test_the_rule(mbean, attribute, name):
    assert name_of(mbean, attribute) == name


def test_the_catalogue():
    names = [family.name for family in FAMILIES.values()]
    assert len(set(names)) == len(names)
    for family in FAMILIES.values():
        assert re.fullmatch(r"(kafka_[a-z]+|kafkawire|process)_[a-z_]+", family.name)
        assert not family.name.endswith(("_total", "_sum", "_count_total", "_bucket"))
        assert family.name.startswith("kafka_") == family.text.startswith("kafka.")
        # A summary or histogram adds these suffixes, which must not clash with other families.
        if family.kind in (Kind.SUMMARY, Kind.HISTOGRAM):
            assert not {f"{family.name}_sum", f"{family.name}_count"} & set(names)


def test_the_documentation_lists_every_metric():
    """The table in docs/observability.md has a row for each family."""
    page = (ROOT / "docs" / "observability.md").read_text("utf-8")
    for family in FAMILIES.values():
        name = family.name + ("_total" if family.kind is Kind.COUNTER else "")
        text = family.text.partition(": ")[2] if family.name.startswith("kafka_") else family.text
        labels = ", ".join(f"`{label}`" for label in family.labels)
        assert f"| `{name}` | {family.kind.value} | {labels} | {text} |\n" in page
