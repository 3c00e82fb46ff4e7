"""Alterations of credentials are refused or planned as in both releases of Apache Kafka.

Method: `quota_cases.py` has the rules of 4.3, checked against a real Kafka; here are the differences in 3.9, from its
source, and the changes to configurations.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kafkawire.reference_broker.security.scram_alterations import (
    Deletion,
    Upsertion,
    plan_alterations,
    plan_alterations_in_registry,
)
from kafkawire.reference_broker.security.scram_credentials import parse_credential
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import ScramMechanism
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
STORED = {"alice": {"SCRAM-SHA-256": "old", "SCRAM-SHA-512": "old", "producer_byte_rate": "5"}}


def configs_of(name: str) -> Mapping[str, str]:
    return STORED.get(name, {})


def set_(name: str, mechanism: int = SHA_256, iterations: int = 4096) -> Upsertion:
    return Upsertion(name, mechanism, iterations, b"salt", b"salted")


def outcome(results, name: str) -> ErrorCode:
    found = results[name]
    return found.code if isinstance(found, BrokerError) else ErrorCode.NONE


@pytest.mark.parametrize("plan", [plan_alterations, plan_alterations_in_registry])
def test_changes(plan) -> None:
    results = plan([Deletion("alice", SHA_256)], [set_("bob")], configs_of)
    after = results["alice"](STORED["alice"])
    assert after == {"SCRAM-SHA-512": "old", "producer_byte_rate": "5"}
    (text,) = results["bob"]({}).values()
    assert parse_credential(text).salt == b"salt"
    results = plan([], [set_("alice", SHA_512, 8192)], configs_of)
    after = results["alice"](STORED["alice"])
    assert (after["SCRAM-SHA-256"], after["producer_byte_rate"]) == ("old", "5")
    assert parse_credential(after["SCRAM-SHA-512"]).iterations == 8192


@pytest.mark.parametrize("plan", [plan_alterations, plan_alterations_in_registry])
def test_passwords_without_bytes(plan) -> None:
    """Anybody could log in with such a credential, and Kafka fails on it, after the other checks."""
    empty = set_("alice")
    empty.salted_password = b""
    results = plan([], [empty, set_("bob")], configs_of)
    assert outcome(results, "alice") == ErrorCode.UNKNOWN_SERVER_ERROR
    # Kafka 3.9 tries all changes for each of the users.
    assert outcome(results, "bob") == (ErrorCode.NONE if plan is plan_alterations else ErrorCode.UNKNOWN_SERVER_ERROR)
    assert outcome(plan([], [empty, set_("alice")], configs_of), "alice") == ErrorCode.DUPLICATE_RESOURCE


def test_several_mechanisms_of_a_user() -> None:
    deletions, upsertions = [Deletion("alice", SHA_256)], [set_("alice", SHA_512)]
    assert outcome(plan_alterations(deletions, upsertions, configs_of), "alice") == ErrorCode.DUPLICATE_RESOURCE
    revise = plan_alterations_in_registry(deletions, upsertions, configs_of)["alice"]
    assert not isinstance(revise, BrokerError)
    after = revise(STORED["alice"])
    assert set(after) == {"SCRAM-SHA-512", "producer_byte_rate"}
    assert after["SCRAM-SHA-512"] != "old"
    both = [Deletion("alice", SHA_256), Deletion("alice", SHA_512)]
    assert outcome(plan_alterations(both, [], configs_of), "alice") == ErrorCode.DUPLICATE_RESOURCE
    assert outcome(plan_alterations_in_registry(both, [], configs_of), "alice") == ErrorCode.NONE


@pytest.mark.parametrize(
    ("deletions", "upsertions", "code"),
    [
        ([], [set_("")], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([Deletion("alice", 3)], [], ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ([], [set_("alice", 0)], ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ([], [set_("alice", SHA_256, 4095)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([], [set_("alice", SHA_256, 16385)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([], [set_("alice"), set_("alice")], ErrorCode.DUPLICATE_RESOURCE),
        ([Deletion("alice", SHA_256)], [set_("alice")], ErrorCode.DUPLICATE_RESOURCE),
        ([Deletion("bob", SHA_256)], [], ErrorCode.RESOURCE_NOT_FOUND),
        ([Deletion("alice", 3)], [set_("alice", SHA_256, 1)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
    ],
)
def test_refusals_in_a_cluster(deletions, upsertions, code) -> None:
    (name,) = {each.name for each in (*deletions, *upsertions)}
    results = plan_alterations_in_registry(deletions, [*upsertions, set_("carol")], configs_of)
    assert outcome(results, name) == code
    assert outcome(results, "carol") == ErrorCode.NONE, "other users are not affected"
