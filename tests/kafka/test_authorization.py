"""Apache Kafka and the reference broker make the same decision about every API, without and with each request's rights.

Method: send the requests of a table to both secured brokers as a user who has no rights, give the user rights with our
`Admin`, and send the requests again. The answers are those with which the broker is tested without Kafka; of refusals,
each field of the response is compared, so that nobody learns more from one broker than from the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from kafkawire import AccessControlEntryFilter, AclBindingFilter, BrokerError, ResourcePatternFilter
from kafkawire.sdk.protocol.messages.create_acls import CreateAclsResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import (
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.certificates import Certificates
from tests.kafka.cleaning import until
from tests.kafka.secure import SecureBroker, SecureKafka
from tests.kafka.security_scene import SecurityScene
from tests.reference_broker.apis.acl_cases import CREATIONS, CreationCase, results_of
from tests.reference_broker.apis.authorization_bench import ALICE
from tests.reference_broker.apis.authorization_cases import ANSWERS, CASES, Case, answers, name_of, on_topic

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def kafkas(secure_kafka: SecureKafka) -> Iterator[SecurityScene]:
    scene = SecurityScene(secure_kafka)
    yield scene
    scene.close()


@pytest.fixture(scope="module")
def ours(certificates: Certificates) -> Iterator[SecurityScene]:
    with SecureBroker(certificates) as broker:
        scene = SecurityScene(broker)
        yield scene
        scene.close()


@pytest.fixture(params=["kafkas", "ours"])
def scene(request: pytest.FixtureRequest) -> SecurityScene:
    found: SecurityScene = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_answers_without_and_with_rights(kafkas: SecurityScene, ours: SecurityScene, case: Case) -> None:
    refusals = []
    for scene in (kafkas, ours):
        scene.give_only([])
        refusals.append(scene.response(case))
        assert answers(refusals[-1], case.version) == ANSWERS[case.name]["denied"]
        scene.give_only(case.rights)
        assert scene.answers(case) == ANSWERS[case.name]["allowed"]
    theirs, own = (told(each, case.version) for each in refusals)
    assert own == theirs


def told(value: Any, version: int) -> Any:
    """Return what a part of a response tells, in a form that does not depend on the broker."""
    if isinstance(value, Message):
        names = [field.name for field in value.FIELDS if version in field.versions]
        found = {name: getattr(value, name) for name in names}
        return {name: is_known(each) if name in OF_EACH_BROKER else told(each, version) for name, each in found.items()}
    if isinstance(value, list | tuple):
        return sorted((told(each, version) for each in value), key=repr)
    if isinstance(value, memoryview | bytes):
        return len(value), any(value)
    if isinstance(value, str):
        return NEEDED.sub(r"needs \1", value)
    return value


def is_known(value: Any) -> bool:
    """Return whether a field has a value other than those that stand for none."""
    return value not in (None, "", 0, -1)


#: The fields whose values each broker has of its own.
OF_EACH_BROKER = {"cluster_id", "host", "port", "throttle_time_ms"}

#: Kafka's text about a missing right to the cluster also shows addresses of objects in its memory.
NEEDED = re.compile(r"^Request .* needs (\w+) permission\.$")


@pytest.mark.parametrize("case", CREATIONS, ids=lambda case: case.name)
def test_what_can_be_created(scene: SecurityScene, case: CreationCase) -> None:
    response = scene.ask_as_superuser(case.request, 3)
    assert isinstance(response, CreateAclsResponse)
    assert results_of(response) == case.results


def test_acls_are_described_and_deleted(scene: SecurityScene) -> None:
    rights = on_topic(AclOperation.READ, "authz.one"), on_topic(AclOperation.READ, "authz.two")
    scene.give_only(rights)
    one, two = (right.of(str(ALICE)) for right in rights)
    named = AclBindingFilter(ResourcePatternFilter(ResourceType.TOPIC, "authz.one", PatternType.MATCH))
    assert scene.admin.describe_acls(named) == [one]
    nobody = AclBindingFilter(entry_filter=AccessControlEntryFilter("User:nobody"))
    deleted = scene.admin.delete_acls(named, nobody)
    assert {each: set(results.values) for each, results in deleted.values.items()} == {named: {one}, nobody: set()}
    until(lambda: scene.acls() == {two}, "the broker has heard about the deletion")


def test_a_refused_acl(scene: SecurityScene) -> None:
    right = on_topic(AclOperation.READ)
    nameless, denial = right.of("alice"), right.of(str(ALICE))
    denial = denial._replace(entry=denial.entry._replace(permission_type=AclPermissionType.DENY))
    created = scene.admin.create_acls(nameless, denial)
    assert set(created.values) == {denial}
    (error,) = created.errors.values()
    assert isinstance(error, BrokerError)
    assert error.code == ErrorCode.INVALID_REQUEST
    assert "Could not parse principal from `alice`" in str(error)
