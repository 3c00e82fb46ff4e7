"""A function may keep its token until it ends: no session breaks, and no request fails.

Method: as Apache Kafka does, an in-memory broker limits sessions to the life of the token, and refuses tokens that have
ended, and logins within one second of the last one; time is skipped.
"""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest

from kafkawire.sdk.admin.admin import Admin
from kafkawire.sdk.client import login
from kafkawire.sdk.client.token_life import expires_ms
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from kafkawire.sdk.protocol.messages.sasl_handshake import SaslHandshakeResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.secret import Secret
from kafkawire.sdk.transport.timing import sleep_ms
from tests.sdk.scripted_broker import BROKER, StoringBroker

#: How long a token is valid; long enough for a session, and short enough for many.
LIFE_MS = 15_000


class TokenBroker(StoringBroker):
    """A broker that asks for tokens.

    Attributes:
        shaken_ms: when each login began.
        refusals: why logins were refused.
    """

    def __init__(self) -> None:
        super().__init__({"t": 1})
        self.shaken_ms: list[int] = []
        self.refusals: list[str] = []
        self.responders |= {ApiKey.SASL_HANDSHAKE: self._shake, ApiKey.SASL_AUTHENTICATE: self._authenticate}

    def _shake(self, request: Request) -> SaslHandshakeResponse:
        last_ms = self.shaken_ms[-1] if self.shaken_ms else -1_000
        self.shaken_ms.append(monotonic_ms())
        if self.shaken_ms[-1] - last_ms < 1_000:
            self.refusals.append("too early")
            return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)
        return SaslHandshakeResponse(mechanisms=["OAUTHBEARER"])

    def _authenticate(self, request: Request) -> SaslAuthenticateResponse:
        token = bytes(request.message.auth_bytes).split(b"Bearer ")[1].rstrip(b"\x01").decode()
        end_ms = expires_ms(Secret(token))
        assert end_ms is not None
        left_ms = int(end_ms) - monotonic_ms()
        if left_ms <= 0:
            self.refusals.append("ended")
            return SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, "the token has ended")
        return SaslAuthenticateResponse(session_lifetime_ms=left_ms)


@pytest.mark.usefixtures("time_skips")
@pytest.mark.parametrize("step_ms", [70, 310, 990])
def test_a_function_that_keeps_its_token_until_it_ends(step_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "now_ms", monotonic_ms)
    kept, made = "", 0

    def token() -> str:
        nonlocal kept, made
        if not kept or (expires_ms(Secret(kept)) or 0) <= monotonic_ms():
            claims = json.dumps({"exp": (monotonic_ms() + LIFE_MS) / 1_000})
            kept = f"e30.{base64.b64encode(claims.encode()).decode().rstrip('=')}."
            made += 1
        return kept

    async def run() -> None:
        broker = TokenBroker()
        given: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}
        async with Admin(str(BROKER), network=broker.network, sasl_oauthbearer_token=token, **given) as admin:
            links, end_ms = list(broker.links), monotonic_ms() + 10 * LIFE_MS
            while monotonic_ms() < end_ms:
                assert await admin.list_topics() != {}
                await sleep_ms(step_ms)
            assert broker.refusals == []
            assert 9 <= made <= 11
            assert len(broker.shaken_ms) < 5 * made, "a session is not renewed over and over"
            assert broker.links == links, "the connection has lasted"

    asyncio.run(run())
