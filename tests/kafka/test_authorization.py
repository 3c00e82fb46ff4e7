"""A real Kafka gives the answers that the reference broker was tested with, without and with each request's rights.

Method: send the requests of a table to a secured node as a user who has no rights, give the user rights with our
`Admin`, and send the requests again.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkawire import AccessControlEntryFilter, AclBinding, AclBindingFilter, BrokerError, ResourcePatternFilter, sync
from kafkawire.sdk.protocol.messages.create_acls import CreateAclsResponse
from kafkawire.sdk.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkawire.sdk.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import (
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.blocking import ConnectionEnded, FrameSocket
from tests.kafka.cleaning import until
from tests.kafka.produced import TIMEOUT_MS, call
from tests.kafka.secure import PASSWORDS, SecureKafka
from tests.reference_broker.apis.acl_cases import CREATIONS, CreationCase, results_of
from tests.reference_broker.apis.authorization_bench import ALICE, prepare
from tests.reference_broker.apis.authorization_cases import (
    ANSWERS,
    CASES,
    Case,
    Right,
    answers,
    name_of,
    on_topic,
)

_OF_ALICE = AclBindingFilter(entry_filter=AccessControlEntryFilter(str(ALICE)))


class Scene:
    """Alice, who has no rights at first, and a superuser.

    Args:
        node: the broker.
    """

    def __init__(self, node: SecureKafka) -> None:
        self._node = node
        # Every client of this listener is a superuser.
        self.admin = sync.Admin(node.bootstrap)
        self.admin.start()
        self._facts = prepare(self.ask_as_superuser, lambda is_done: until(is_done, "what the cases need exists"))

    def close(self) -> None:
        """End the superuser's client."""
        self.admin.close()

    def give_only(self, *rights: Right) -> None:
        """Give Alice rights, and none else; wait until the broker shows them."""
        self.admin.delete_acls(_OF_ALICE)
        wanted = {right.of(str(ALICE)) for right in rights}
        self.admin.create_acls(wanted)
        until(lambda: self.acls() == wanted, "the broker has heard about the ACLs")

    def acls(self) -> set[AclBinding]:
        """Return Alice's ACLs."""
        return set(self.admin.describe_acls(_OF_ALICE))

    def answers(self, case: Case) -> list[str]:
        """Return what the response to Alice's request says."""
        # Sessions on this listener are short.
        with _connected(self._node.addresses["SASL_PLAINTEXT"]) as socket:
            call(socket, SaslHandshakeRequest("PLAIN"), 1)
            login = SaslAuthenticateRequest(f"\0{ALICE.name}\0{PASSWORDS[ALICE.name]}".encode())
            response = call(socket, login, 1)
            assert isinstance(response, SaslAuthenticateResponse)
            assert not response.error_code
            try:
                return answers(call(socket, case.request(self._facts), case.version), case.version)
            except ConnectionEnded:
                return answers(None, case.version)

    def ask_as_superuser(self, request: Message, version: int) -> Message:
        """Send a request, and return the response."""
        with _connected(self._node.bootstrap) as socket:
            return call(socket, request, version)


def _connected(address: str) -> FrameSocket:
    host, port = address.rsplit(":", 1)
    return FrameSocket(host, int(port), TIMEOUT_MS / 1000)


@pytest.fixture(scope="module")
def scene(secure_kafka: SecureKafka) -> Iterator[Scene]:
    scene = Scene(secure_kafka)
    yield scene
    scene.close()


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_answers_without_and_with_rights(scene: Scene, case: Case) -> None:
    scene.give_only()
    assert scene.answers(case) == ANSWERS[case.name]["denied"]
    scene.give_only(*case.rights)
    assert scene.answers(case) == ANSWERS[case.name]["allowed"]


@pytest.mark.parametrize("case", CREATIONS, ids=lambda case: case.name)
def test_what_can_be_created(scene: Scene, case: CreationCase) -> None:
    response = scene.ask_as_superuser(case.request, 3)
    assert isinstance(response, CreateAclsResponse)
    assert results_of(response) == case.results


def test_acls_are_described_and_deleted(scene: Scene) -> None:
    rights = on_topic(AclOperation.READ, "authz.one"), on_topic(AclOperation.READ, "authz.two")
    scene.give_only(*rights)
    one, two = (right.of(str(ALICE)) for right in rights)
    named = AclBindingFilter(ResourcePatternFilter(ResourceType.TOPIC, "authz.one", PatternType.MATCH))
    assert scene.admin.describe_acls(named) == [one]
    nobody = AclBindingFilter(entry_filter=AccessControlEntryFilter("User:nobody"))
    deleted = scene.admin.delete_acls(named, nobody)
    assert {each: set(results.values) for each, results in deleted.values.items()} == {named: {one}, nobody: set()}
    until(lambda: scene.acls() == {two}, "the broker has heard about the deletion")


def test_a_refused_acl(scene: Scene) -> None:
    right = on_topic(AclOperation.READ)
    nameless, denial = right.of("alice"), right.of(str(ALICE))
    denial = denial._replace(entry=denial.entry._replace(permission_type=AclPermissionType.DENY))
    created = scene.admin.create_acls(nameless, denial)
    assert set(created.values) == {denial}
    (error,) = created.errors.values()
    assert isinstance(error, BrokerError)
    assert error.code == ErrorCode.INVALID_REQUEST
    assert "Could not parse principal from `alice`" in str(error)
