"""Type checkers know every option: they accept correct programs, and reject wrong names, values and types.

Method: check one program with mypy and pyright, which must reject exactly those lines that are marked with comments.
"""

from __future__ import annotations

import typing

import pytest

from kafkawire.reference_broker.config.cluster_options import ClusterOptions
from kafkawire.reference_broker.config.keywords import BrokerKeywords
from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.sdk.client import keywords
from kafkawire.sdk.client.options import CLIENTS
from kafkawire.sdk.options import Options

PROGRAM = """\
import ssl
from datetime import timedelta
from typing import Any, Unpack

from kafkawire import Admin, Assignor, Compression, Consumer, Producer, ProducerKeywords, TopicPartition
from kafkawire.testing import Broker, BrokerKeywords


class MyAssignor(Assignor):
    name = "mine"

    def assign(
        self, subscriptions: Any, partition_counts: Any, replica_racks: Any = None
    ) -> dict[str, list[TopicPartition]]:
        return {}


Producer("a:1", linger_ms=5, acks="all", compression="zstd", partitioner=lambda key, count: 0)
Producer(["a:1"], acks=1, compression=Compression.LZ4, partitioner=None)
Producer(bootstrap_servers="a:1")
Consumer("a:1", "orders", "payments", group_id="g", assignors=["range"], auto_offset_reset="earliest")
Consumer("a:1", group_id=None, assignors="range", auto_offset_reset=timedelta(days=7))
Consumer("a:1", group_id="g", assignors=[MyAssignor(), "range"])
Consumer("a:1", group_id="g", assignors=MyAssignor())
Admin("a:1", api_timeout_ms=1_000)
Admin("a:1", security_protocol="SSL", ssl_context=ssl.create_default_context())
Admin("a:1", security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_username="alice", sasl_password="secret")
Admin("a:1", security_protocol="SASL_SSL", sasl_mechanism="OAUTHBEARER", sasl_oauthbearer_token=lambda: "token")
Broker(num_partitions=3, log_segment_bytes=2**20, compression_type="zstd", auto_create_topics=False)
settings: dict[str, Any] = {"linger.ms": "5"}
Producer(**settings)


def produce(servers: str, **options: Unpack[ProducerKeywords]) -> Producer:
    return Producer(servers, **options)


def broker(**options: Unpack[BrokerKeywords]) -> Broker:
    return Broker(**options)


produce("a:1", linger_ms=0)
Producer("a:1", lingr_ms=5)  # refused
Producer("a:1", linger_ms="5")  # refused
Producer("a:1", linger_ms=None)  # refused
Producer("a:1", compression="zstdd")  # refused
Producer("a:1", acks=2)  # refused
Producer("a:1", group_id="g")  # refused
Producer("a:1", partitioner="murmur2")  # refused
Producer(b"a:1")  # refused
Consumer("a:1", ["orders"], "payments")
Consumer("a:1", [5])  # refused
Consumer("a:1", "orders", auto_offset_reset=1)  # refused
Consumer("a:1", "orders", enable_auto_commit="false")  # refused
Consumer("a:1", "orders", auto_offset_reset="earlist")  # refused
Consumer("a:1", "orders", auto_offset_reset=timedelta(days=1))
Consumer("a:1", "orders", assignors=["rang"])  # refused
Consumer("a:1", "orders", assignors="sticki")  # refused
Consumer("a:1", "orders", assignors="sticky")
Consumer("a:1", "orders", group_protocol="clasic")  # refused
Consumer("a:1", "orders", isolation_level="read_comitted")  # refused
Consumer("a:1", "orders", io="treads")  # refused
Producer("a:1", acks="al")  # refused
Producer("a:1", partitioner="roundrobin")  # refused
Producer("a:1", sasl_mechanism="SCRAM-SHA256")  # refused
Producer("a:1", ssl_truststore_type="JKS")  # refused
Producer("a:1", ssl_keystore_type="JKS")  # refused
Producer("a:1", ssl_endpoint_identification_algorithm="http")  # refused
Broker(log_message_timestamp_type="LogAppend")  # refused
Broker(log_cleanup_policy="compct")  # refused
Broker(log_cleanup_policy="compact,delete")
Admin("a:1", linger_ms=5)  # refused
Admin("a:1", security_protocol="TLS")  # refused
Admin("a:1", ssl_context=True)  # refused
Admin("a:1", sasl_mechanism="PLAIN", sasl_password=b"secret")  # refused
Broker(num_partition=3)  # refused
Broker(num_partitions="3")  # refused
Broker(compression_type="zstdd")  # refused
produce("a:1", lingr_ms=0)  # refused
broker(num_partition=3)  # refused
"""


@pytest.mark.parametrize(
    ("kinds", "typed"),
    [
        *(((options,), getattr(keywords, f"{name}Keywords")) for name, options in CLIENTS.items()),
        ((BrokerOptions, ClusterOptions), BrokerKeywords),
    ],
)
def test_every_option_is_a_keyword_with_a_type(kinds: tuple[type[Options], ...], typed: type) -> None:
    hints = typing.get_type_hints(typed)
    assert hints.keys() == {name for kind in kinds for name in kind.OPTIONS}
    assert object not in hints.values()
    assert not typed.__required_keys__  # type: ignore[attr-defined]  # every TypedDict has it
