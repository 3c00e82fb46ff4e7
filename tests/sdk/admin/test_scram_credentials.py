"""Credentials are listed and changed; passwords are hashed before they are sent.

Method: call a scripted in-memory broker with hand-built responses, then a real broker in the process.
"""

from __future__ import annotations

from threading import current_thread, main_thread

import pytest

from kafkawire import (
    Admin,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialsDescription,
    UserScramCredentialUpsertion,
    sync,
)
from kafkawire.sdk.errors import BrokerError, RemoteProtocolError
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.scram import salted_password
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.testing import Broker
from tests.sdk.admin.administering import Pair, administering
from tests.sdk.scripted_broker import StoringBroker

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
Described = messages.DescribeUserScramCredentialsResponse
Altered = messages.AlterUserScramCredentialsResponse
Result = Altered.AlterUserScramCredentialsResult


def test_what_is_sent() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.ALTER_USER_SCRAM_CREDENTIALS] = lambda request: Altered(
            results=[Result("bob", ErrorCode.RESOURCE_NOT_FOUND, "no"), Result("alice", 0, None)]
        )
        results = await admin.alter_user_scram_credentials(
            UserScramCredentialUpsertion("alice", SHA_512, "secret", 8192, b"salt"),
            UserScramCredentialUpsertion("alice", SHA_256, "secret"),
            UserScramCredentialDeletion("bob", SHA_256),
        )
        assert results.values == {"alice": None}
        assert str(results.errors["bob"]) == "RESOURCE_NOT_FOUND: SCRAM credentials of bob: no"
        (request,) = broker.asked(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
        assert isinstance(request, messages.AlterUserScramCredentialsRequest)
        first, second = request.upsertions
        assert (first.name, first.mechanism, first.iterations, bytes(first.salt)) == ("alice", SHA_512, 8192, b"salt")
        assert bytes(first.salted_password) == salted_password("SCRAM-SHA-512", "secret", b"salt", 8192)
        assert second.iterations == 4096
        assert len(second.salt) > 16
        assert bytes(second.salted_password) == salted_password("SCRAM-SHA-256", "secret", bytes(second.salt), 4096)
        assert [(each.name, each.mechanism) for each in request.deletions] == [("bob", SHA_256)]
        with pytest.raises(RemoteProtocolError, match="lacks user carol"):
            await admin.alter_user_scram_credentials(UserScramCredentialDeletion("carol", SHA_256))

    administering(test)


def test_hashing_does_not_block_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passwords are hashed on another thread, one at a time."""
    events: list[tuple[str, bool]] = []

    def hashed(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
        events.append(("begins", current_thread() is main_thread()))
        try:
            return salted_password(mechanism, password, salt, iterations)
        finally:
            events.append(("ends", current_thread() is main_thread()))

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.ALTER_USER_SCRAM_CREDENTIALS] = lambda request: Altered(
            results=[Result("alice", 0, None), Result("bob", 0, None)]
        )
        created = (UserScramCredentialUpsertion(user, SHA_256, "secret") for user in ("alice", "bob"))
        assert (await admin.alter_user_scram_credentials(created)).all() == {"alice": None, "bob": None}

    monkeypatch.setattr("kafkawire.sdk.admin.scram_credentials.salted_password", hashed)
    administering(test)
    assert events == [("begins", False), ("ends", False)] * 2


def test_what_is_returned() -> None:
    infos = [Described.CredentialInfo(SHA_256, 4096), Described.CredentialInfo(9, 5)]

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS] = lambda request: Described(
            results=[
                Described.DescribeUserScramCredentialsResult("alice", 0, None, infos),
                Described.DescribeUserScramCredentialsResult("bob", ErrorCode.RESOURCE_NOT_FOUND, "no"),
            ]
        )
        results = await admin.describe_user_scram_credentials("alice", "bob", "alice")
        expected = (ScramCredentialInfo(SHA_256, 4096), ScramCredentialInfo(9, 5))
        assert results.values == {"alice": UserScramCredentialsDescription("alice", expected)}
        assert str(results.errors["bob"]) == "RESOURCE_NOT_FOUND: SCRAM credentials of bob: no"
        await admin.describe_user_scram_credentials()
        first, second = broker.asked(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
        assert isinstance(first, messages.DescribeUserScramCredentialsRequest)
        assert isinstance(second, messages.DescribeUserScramCredentialsRequest)
        assert [user.name for user in first.users or ()] == ["alice", "bob"]
        assert second.users == ()
        with pytest.raises(RemoteProtocolError, match="lacks user carol"):
            await admin.describe_user_scram_credentials("carol")
        broker.responders[ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS] = lambda request: Described(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message="no"
        )
        with pytest.raises(BrokerError, match="CLUSTER_AUTHORIZATION_FAILED: SCRAM credentials: no"):
            await admin.describe_user_scram_credentials()

    administering(test)


def test_a_controller_that_has_moved() -> None:
    pair = Pair()

    def moved(request: object) -> Altered:
        pair.controller_id = 2
        return Altered(results=[Result("alice", ErrorCode.NOT_CONTROLLER, None)])

    pair.brokers[1].responders[ApiKey.ALTER_USER_SCRAM_CREDENTIALS] = moved
    pair.brokers[2].responders[ApiKey.ALTER_USER_SCRAM_CREDENTIALS] = lambda request: Altered(
        results=[Result("alice", 0, None)]
    )

    async def test(admin: Admin) -> None:
        results = await admin.alter_user_scram_credentials(UserScramCredentialDeletion("alice", SHA_256))
        assert results.all() == {"alice": None}

    pair.administering(test)


def test_a_broker_in_the_process() -> None:
    with Broker() as broker, sync.Admin(broker.bootstrap) as admin:
        created = UserScramCredentialUpsertion("alice", SHA_256, "secret")
        assert admin.alter_user_scram_credentials(created).all() == {"alice": None}
        described = UserScramCredentialsDescription("alice", (ScramCredentialInfo(SHA_256, 4096),))
        assert admin.describe_user_scram_credentials().all() == {"alice": described}
        assert list(admin.describe_user_scram_credentials("bob").errors) == ["bob"]
        few = UserScramCredentialUpsertion("alice", SHA_256, "secret", 5)
        text = "UNACCEPTABLE_CREDENTIAL: SCRAM credentials of alice: Too few iterations"
        assert str(admin.alter_user_scram_credentials([few]).errors["alice"]) == text
        assert admin.alter_user_scram_credentials(UserScramCredentialDeletion("alice", SHA_256)).all() == {
            "alice": None
        }
        assert admin.describe_user_scram_credentials() == ({}, {})
