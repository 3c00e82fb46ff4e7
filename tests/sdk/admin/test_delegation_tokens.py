"""An admin creates, renews, expires and describes delegation tokens, and passes on what brokers say.

Method: call a scripted broker with hand-built responses, and the reference broker, whose clients the test logs in.
"""

from __future__ import annotations

import base64

import pytest

from kafkawire.sdk.admin.admin import Admin
from kafkawire.sdk.admin.token_values import DelegationToken
from kafkawire.sdk.errors import BrokerError, LocalProtocolError
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.secret import Secret
from tests.sdk.admin.administering import administering
from tests.sdk.scripted_broker import StoringBroker

HMAC = bytes(range(64))
PASSWORD = Secret(base64.b64encode(HMAC).decode())
TOKEN = DelegationToken("id", PASSWORD, "User:alice", "User:bob", ("User:carol",), 1, 2, 3)

Create, Created = messages.CreateDelegationTokenRequest, messages.CreateDelegationTokenResponse
Describe, Described = messages.DescribeDelegationTokenRequest, messages.DescribeDelegationTokenResponse

CREATED = Created(0, "User", "alice", "User", "bob", 1, 2, 3, "id", HMAC)


def test_create() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.CREATE_DELEGATION_TOKEN] = lambda request: CREATED
        assert await admin.create_delegation_token("User:alice", ["User:carol"], 5_000) == TOKEN
        assert (await admin.create_delegation_token()).renewers == ()
        full, least = broker.asked(ApiKey.CREATE_DELEGATION_TOKEN)
        assert full == Create("User", "alice", [Create.CreatableRenewers("User", "carol")], 5_000)
        assert least == Create(max_lifetime_ms=-1)
        await admin.create_delegation_token(max_lifetime_ms=-1)
        assert broker.asked(ApiKey.CREATE_DELEGATION_TOKEN)[-1] == least

    administering(test)


def test_an_old_broker_does_not_name_the_requester() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.CREATE_DELEGATION_TOKEN] = lambda request: Created(
            0,
            "User",
            "alice",
            issue_timestamp_ms=1,
            expiry_timestamp_ms=2,
            max_timestamp_ms=3,
            token_id="id",
            hmac=HMAC,
        )
        token = Described.DescribedDelegationToken("User", "alice", token_id="id", hmac=HMAC)
        broker.responders[ApiKey.DESCRIBE_DELEGATION_TOKEN] = lambda request: Described(0, [token])
        assert (await admin.create_delegation_token()).requester == "User:alice"
        (described,) = await admin.describe_delegation_tokens()
        assert described.requester == "User:alice"

    administering(test, {ApiKey.CREATE_DELEGATION_TOKEN: 2, ApiKey.DESCRIBE_DELEGATION_TOKEN: 2})


def test_renew_and_expire() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.RENEW_DELEGATION_TOKEN] = lambda request: messages.RenewDelegationTokenResponse(0, 7)
        broker.responders[ApiKey.EXPIRE_DELEGATION_TOKEN] = lambda request: messages.ExpireDelegationTokenResponse(0, 8)
        assert await admin.renew_delegation_token(TOKEN) == 7
        assert await admin.renew_delegation_token(PASSWORD, 60_000) == 7
        assert await admin.expire_delegation_token(HMAC) == 8
        assert await admin.expire_delegation_token(PASSWORD.reveal(), 0) == 8
        await admin.renew_delegation_token(HMAC, -1)
        await admin.expire_delegation_token(HMAC, -1)
        assert broker.asked(ApiKey.RENEW_DELEGATION_TOKEN) == [
            messages.RenewDelegationTokenRequest(HMAC, -1),
            messages.RenewDelegationTokenRequest(HMAC, 60_000),
            messages.RenewDelegationTokenRequest(HMAC, -1),
        ]
        assert broker.asked(ApiKey.EXPIRE_DELEGATION_TOKEN) == [
            messages.ExpireDelegationTokenRequest(HMAC, -1),
            messages.ExpireDelegationTokenRequest(HMAC, 0),
            messages.ExpireDelegationTokenRequest(HMAC, -1),
        ]

    administering(test)


def test_describe() -> None:
    renewers = [Described.DescribedDelegationTokenRenewer("User", "carol")]
    token = Described.DescribedDelegationToken("User", "alice", "User", "bob", 1, 2, 3, "id", HMAC, renewers)

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.DESCRIBE_DELEGATION_TOKEN] = lambda request: Described(0, [token])
        assert await admin.describe_delegation_tokens() == [TOKEN]
        assert await admin.describe_delegation_tokens(["User:alice"]) == [TOKEN]
        await admin.describe_delegation_tokens([])
        assert broker.asked(ApiKey.DESCRIBE_DELEGATION_TOKEN) == [
            Describe(None),
            Describe([Describe.DescribeDelegationTokenOwner("User", "alice")]),
            Describe([]),
        ]

    administering(test)


def test_errors() -> None:
    code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.CREATE_DELEGATION_TOKEN] = lambda request: Created(code)
        broker.responders[ApiKey.RENEW_DELEGATION_TOKEN] = lambda request: messages.RenewDelegationTokenResponse(code)
        broker.responders[ApiKey.EXPIRE_DELEGATION_TOKEN] = lambda request: messages.ExpireDelegationTokenResponse(code)
        broker.responders[ApiKey.DESCRIBE_DELEGATION_TOKEN] = lambda request: Described(code)
        for action in (
            admin.create_delegation_token(),
            admin.renew_delegation_token(HMAC),
            admin.expire_delegation_token(HMAC),
            admin.describe_delegation_tokens(),
        ):
            with pytest.raises(BrokerError, match=r"^DELEGATION_TOKEN_AUTH_DISABLED: .* delegation token") as caught:
                await action
            assert caught.value.code is code

    administering(test)


def test_arguments_are_checked_first() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        for action in (
            lambda: admin.create_delegation_token("alice"),
            lambda: admin.create_delegation_token(renewers="User:alice"),
            lambda: admin.create_delegation_token(max_lifetime_ms=0),
            lambda: admin.renew_delegation_token("?"),
            lambda: admin.renew_delegation_token(HMAC, 0),
            lambda: admin.expire_delegation_token(HMAC, -2),
            lambda: admin.describe_delegation_tokens(["alice"]),
        ):
            with pytest.raises(LocalProtocolError):
                await action()

    administering(test)
