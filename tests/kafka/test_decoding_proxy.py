"""The decoding proxy in examples/ reads every frame between third-party clients and Apache Kafka.

Method: run the scenarios of confluent-kafka and kafka-python through the proxy, whose address Apache Kafka advertises;
each request and response must have been decoded. SASL logins must also pass, with and without tokens in requests.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from importlib import import_module
from typing import Any, NamedTuple

import pytest

from kafkawire.protocol import ClientConnection, frame
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkawire.sdk.transport.blocking import FrameSocket
from tests.conversation import assert_decoded, pairs
from tests.kafka.apache import ApacheKafka
from tests.kafka.programs import PROGRAMS, Program
from tests.kafka.secure import PASSWORDS, SecureKafka
from tests.ports import free_port
from tests.proxy import DecodingProxy

CLIENTS = [program for program in PROGRAMS if program.name in ("confluent-kafka", "kafka-python")]

#: The records that a scenario produces.
COUNT = 200


def confluent_kafka_admin(bootstrap: str) -> Any:
    """Return a client that logs in as the C library does by default."""
    return import_module("confluent_kafka.admin").AdminClient(
        {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "alice",
            "sasl.password": PASSWORDS["alice"],
        }
    )


class Watched(NamedTuple):
    """A broker behind the proxy."""

    kafka: ApacheKafka
    proxy: DecodingProxy


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    port = free_port()
    with DecodingProxy(f"127.0.0.1:{port}") as proxy:
        advertised = {"advertised.listeners": f"PLAINTEXT://{proxy.address}"}
        with ApacheKafka(port, advertised) as kafka:
            yield Watched(kafka, proxy)


@pytest.mark.parametrize("program", CLIENTS, ids=lambda program: program.name)
def test_records_there_and_back(watched: Watched, program: Program) -> None:
    topic, address = f"passing-{program.name}", watched.proxy.address
    before = len(watched.proxy.lines)
    program.run(address, "admin", topic)
    stored = program.run(address, "produce", topic, "zstd", "idempotent")
    reader = program.start(address, "group", topic, "classic", str(COUNT))
    read = program.seen(reader)
    places = sorted(map(tuple, stored["places"]))
    assert sorted((record[0], record[1]) for record in read["records"]) == places
    assert_decoded(watched.proxy.lines[1:])
    assert {"InitProducerId", "Produce", "Fetch", "CreateTopics", "OffsetCommit"} <= pairs(watched.proxy.lines[before:])


@pytest.mark.parametrize("program", CLIENTS, ids=lambda program: program.name)
def test_transactions(watched: Watched, program: Program) -> None:
    before = len(watched.proxy.lines)
    topic = f"written-{program.name}"
    program.run(watched.proxy.address, "produce", topic, "none", "default")
    program.run(watched.proxy.address, "transactions", topic)
    assert_decoded(watched.proxy.lines[1:])
    assert {"AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn", "Produce"} <= pairs(watched.proxy.lines[before:])


def test_tokens_of_sasl(secure_kafka: SecureKafka) -> None:
    """Old clients use version 0 of the handshake: frames have no header until the login is complete."""
    with DecodingProxy(secure_kafka.addresses["SASL_PLAINTEXT"]) as proxy:
        client = ClientConnection("old")
        with closing(FrameSocket("127.0.0.1", proxy.port)) as wire:
            wire.send(*client.request(SaslHandshakeRequest("PLAIN"), 0).parts)
            client.receive(wire.receive())
            wire.send(frame(f"\0alice\0{PASSWORDS['alice']}".encode()))
            assert wire.receive() == b""
            wire.send(*client.request(MetadataRequest(), 1).parts)
            client.receive(wire.receive())
        proxy.wait_for(lambda line: "Metadata response" in line)
        assert PASSWORDS["alice"] not in "".join(proxy.lines)
    assert [line.split(",")[0] for line in proxy.lines[1:]] == [
        "1 > <SaslHandshake request",
        "1 < <SaslHandshake response",
        "1 > <SASL token of the client",
        "1 < <SASL token of the broker",
        "1 > <Metadata request",
        "1 < <Metadata response",
    ]


def test_tokens_in_requests(secure_kafka: SecureKafka) -> None:
    with DecodingProxy(secure_kafka.addresses["SASL_PLAINTEXT"]) as proxy:
        client = confluent_kafka_admin(proxy.address)
        client.list_topics(timeout=30)
        proxy.wait_for(lambda line: "Metadata response" in line)
        assert PASSWORDS["alice"] not in "".join(proxy.lines)
        assert {"SaslHandshake", "SaslAuthenticate", "Metadata"} <= pairs(proxy.lines)


def test_a_connection_that_is_no_conversation(watched: Watched) -> None:
    """Apache Kafka closes a connection that carries garbage, and the proxy then closes the client's."""
    with DecodingProxy(watched.kafka.bootstrap) as proxy:
        with socket.create_connection(("127.0.0.1", proxy.port), 30) as client:
            client.sendall(frame(b"\x7f\0\0\1\0\0\0\5body"))
            assert client.recv(1) == b""
        proxy.wait_for(lambda line: "no API has the key 32512" in line)
