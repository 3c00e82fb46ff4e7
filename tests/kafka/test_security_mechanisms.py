"""What a client may do does not depend on how it has logged in, and both brokers make the same decisions.

Method: clients log in to Apache Kafka and to the reference broker in every way. For each type of resource, each of them
sends one request without any right, and with the rights that it needs; `test_authorization.py` has all other requests.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsRequest
from kafkawire.sdk.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from kafkawire.sdk.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kafkawire.sdk.protocol.tables.apis import KNOWN_APIS, ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.certificates import Certificates
from tests.kafka.cleaning import until
from tests.kafka.raw_connection import RawConnection, plain
from tests.kafka.secure_pair import SecurePair, Way, ways_by_name
from tests.kafka.security_scene import SecurityScene
from tests.reference_broker.apis.authorization_cases import ANSWERS, CASES, Right, answers

pytestmark = pytest.mark.timeout(300)

#: A request for each type of resource that protects requests.
REPRESENTATIVES = {
    ResourceType.TOPIC: "Produce v13 by id",
    ResourceType.GROUP: "JoinGroup v9",
    ResourceType.CLUSTER: "CreateAcls v3",
    ResourceType.TRANSACTIONAL_ID: "EndTxn v5",
    ResourceType.USER: "CreateDelegationToken v3 of another user",
}


@pytest.fixture(scope="module")
def pair(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecurePair]:
    with SecurePair(certificates, tmp_path_factory.mktemp("realm")) as pair:
        yield pair


def test_every_type_of_resource_is_represented() -> None:
    protected = {right.resource_type for case in CASES for right in case.rights}
    assert protected == {*REPRESENTATIVES}


@ways_by_name
@pytest.mark.parametrize("name", REPRESENTATIVES.values())
def test_decisions(pair: SecurePair, way: Way, name: str) -> None:
    (case,) = (case for case in CASES if case.name == name)
    found = []
    for scene in pair.scenes:
        for rights in ((), case.rights):
            scene.give_only(rights, way.user)
            with pair.connected(scene, way) as connection:
                response = connection.ask(case.request(scene.facts), case.version)
            found.append(answers(response, case.version))
    if way.is_token and name.startswith("CreateDelegationToken"):
        # A client with a token cannot get another one, whatever its rights are.
        assert found == [[f"all {ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.name}"]] * 4
    else:
        assert found == [ANSWERS[name]["denied"], ANSWERS[name]["allowed"]] * 2


@ways_by_name
def test_tokens_of_others(pair: SecurePair, way: Way) -> None:
    """The remaining type of resource: tokens that a client may not see are left out."""
    found = []
    for scene in pair.scenes:
        token_id = token_of_bob(scene)
        for right in (None, Right(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token_id)):
            scene.give_only(() if right is None else (right,), way.user)
            with pair.connected(scene, way) as connection:
                response = connection.ask(DescribeDelegationTokenRequest(None), 3)
            found.append((ErrorCode(response.error_code), token_id in {each.token_id for each in response.tokens}))
    if way.is_token:
        assert found == [(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, False)] * 4
    else:
        assert found == [(ErrorCode.NONE, False), (ErrorCode.NONE, True)] * 2


def token_of_bob(scene: SecurityScene) -> str:
    """Return the id of a new token that the administrator has made for Bob."""
    with RawConnection(scene.server.addresses["SASL_PLAINTEXT"]) as connection:
        assert connection.log_in("PLAIN", plain("admin")) == [""]
        made = connection.ask(CreateDelegationTokenRequest("User", "bob", max_lifetime_ms=-1), 3)
        assert not made.error_code

        def is_known() -> bool:
            shown = connection.ask(DescribeDelegationTokenRequest(None), 3).tokens
            return made.token_id in {each.token_id for each in shown}

        until(is_known, "the broker knows the token")
        return str(made.token_id)


@ways_by_name
def test_the_versions_are_those_of_all_clients(pair: SecurePair, way: Way) -> None:
    """A login hides no API, and adds none."""
    newest = KNOWN_APIS[ApiKey.API_VERSIONS].stable_versions.last
    request = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
    for scene in pair.scenes:
        with pair.connected(scene, way) as connection, RawConnection(scene.server.bootstrap) as other:
            found = [each.ask(request, newest).api_keys for each in (connection, other)]
        assert found[0] == found[1]
