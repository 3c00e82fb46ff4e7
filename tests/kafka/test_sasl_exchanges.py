"""Apache Kafka answers each client message of a SASL login as recorded, and so does this broker.

Method: play every case of `exchange_cases` against one node and compare the outcomes with the recorded ones, which the
tests of `kafkawire.reference_broker.security.sasl.mechanisms` compare with this broker's. After a change to the cases,
KAFKAWIRE_TEST_RECORD=1 writes the file again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kafkawire.sdk.clock import now_ms
from tests.kafka.apache import ApacheKafka
from tests.kafka.sasl_connection import SaslConnection
from tests.ports import free_port
from tests.reference_broker.security.sasl.exchange_cases import (
    OUTCOMES,
    PASSWORDS,
    SETTINGS,
    Case,
    all_cases,
    outcomes,
    recorded,
)
from tests.reference_broker.security.sasl.signing import signing_keys

pytest.importorskip("cryptography")

#: A refused login is answered after 100 ms, so several are played at once.
THREADS = 16


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Return the addresses of a node: a listener for signed tokens, and one for unsigned tokens and all else."""
    keys = tmp_path_factory.mktemp("keys") / "keys.json"
    keys.write_bytes(signing_keys().public)
    settings = {
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_PLAINTEXT,SIGNED:SASL_PLAINTEXT"
        ),
        "listener.name.login.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.signed.sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
    }
    for kind, own in SETTINGS.items():
        mechanism, _, signed = kind.partition(" ")
        prefix = f"listener.name.{'signed' if signed else 'login'}."
        for name, value in own.items():
            is_listeners = name.startswith("sasl.oauthbearer")
            settings[prefix + name if is_listeners else f"{prefix}{mechanism.lower()}.{name}"] = value
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys.as_uri()}")
        listeners = {name: f"127.0.0.1:{free_port()}" for name in ("LOGIN", "SIGNED")}
        with ApacheKafka(settings=settings, listeners=listeners, users=PASSWORDS):
            yield listeners


def played(address: str, case: Case) -> list[Any]:
    """Play a case on a connection of its own."""
    with SaslConnection(address, case.kind.partition(" ")[0]) as connection:
        return outcomes(case, connection.send, now_ms(), signing_keys())


def test_every_case(addresses: dict[str, str]) -> None:
    cases = {f"{case.kind} {case.name}": case for case in all_cases()}
    own = [addresses["SIGNED" if "signed" in case.kind else "LOGIN"] for case in cases.values()]
    with ThreadPoolExecutor(THREADS) as threads:
        found = dict(zip(cases, threads.map(played, own, cases.values()), strict=True))
    if os.environ.get("KAFKAWIRE_TEST_RECORD"):
        Path(OUTCOMES).write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    assert found == recorded()
