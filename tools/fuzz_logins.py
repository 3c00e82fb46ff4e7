"""The fuzzer's target for the broker's side of SASL: damaged messages of clients, in every step of a login.

A message must either be answered, or end the login with `LoginRefused`, whose text shows no secret. Nobody may log in
as another user.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from random import Random

from kafkawire.reference_broker.security.credentials import ScramCredential
from kafkawire.reference_broker.security.sasl.mechanism import Exchange, LoginRefused
from kafkawire.reference_broker.security.sasl.oauthbearer import OAuthBearerExchange
from kafkawire.reference_broker.security.sasl.plain import PlainExchange
from kafkawire.reference_broker.security.sasl.scram import ScramExchange
from kafkawire.reference_broker.security.sasl.unsecured_tokens import UnsecuredTokens
from kafkawire.sdk.protocol.sasl.authenticator import Authenticator
from kafkawire.sdk.protocol.sasl.oauthbearer import OAuthBearerAuthenticator
from kafkawire.sdk.protocol.sasl.plain import PlainAuthenticator
from kafkawire.sdk.protocol.sasl.scram import ScramAuthenticator
from kafkawire.sdk.protocol.scram import ITERATIONS_MIN, SCRAM_MECHANISMS, make_credential
from kafkawire.sdk.secret import Secret
from tools.fuzz_cases import Case
from tools.mutation import mutate

__all__ = ["check_login", "damage_login", "login_inputs"]

_NOW_MS = 1_780_000_000_000
_USER, _PASSWORD = "alice", Secret("password of alice")

_HEADER = base64.b64encode(b'{"alg":"none"}', b"-_").decode().rstrip("=")


class _Users:
    """One user."""

    def scram_credential(self, mechanism: str, username: str) -> ScramCredential | None:
        return _credential(mechanism) if username == _USER else None


@cache
def _credential(mechanism: str) -> ScramCredential:
    return make_credential(mechanism, _PASSWORD.reveal(), b"salt", ITERATIONS_MIN)


def _token() -> Secret:
    claims = {"sub": _USER, "iat": _NOW_MS // 1000, "exp": _NOW_MS // 1000 + 3600, "scope": ["read"]}
    return Secret(f"{_HEADER}.{base64.b64encode(json.dumps(claims).encode(), b'-_').decode().rstrip('=')}.")


#: Begins both sides of a login, keyed by the mechanism.
_LOGINS: Mapping[str, Callable[[str], tuple[Exchange, Authenticator]]] = {
    "PLAIN": lambda _: (PlainExchange({_USER: _PASSWORD}), PlainAuthenticator(_USER, _PASSWORD)),
    **dict.fromkeys(
        SCRAM_MECHANISMS,
        lambda name: (
            ScramExchange(name, "server", _Users(), None),
            ScramAuthenticator(name, _USER, _PASSWORD, "client"),
        ),
    ),
    "OAUTHBEARER": lambda _: (
        OAuthBearerExchange(UnsecuredTokens()),
        OAuthBearerAuthenticator(_token(), {"traceId": "1"}),
    ),
}


def login_inputs() -> list[Case]:
    """Return every message of an undamaged login with each mechanism; the label has the mechanism and the step."""
    cases = []
    for mechanism, begin in _LOGINS.items():
        exchange, client = begin(mechanism)
        message: bytes | None = client.first_message()
        step = 0
        while message is not None:
            cases.append(Case(f"{mechanism} {step}", message))
            message = client.respond(exchange.respond(message, _NOW_MS))
            step += 1
    return cases


def damage_login(random: Random, inputs: Sequence[Case]) -> Case:
    """Return a damaged message, sometimes labelled as that of another step or mechanism."""
    case, other = random.choice(inputs), random.choice(inputs)
    label = other.label if random.random() < 0.05 else case.label
    return Case(label, mutate(random, case.data, other.data))


def check_login(case: Case) -> str | None:
    """Send the messages of a login, the last of which is damaged."""
    mechanism, _, step = case.label.partition(" ")
    exchange, client = _LOGINS[mechanism](mechanism)
    message: bytes | None = client.first_message()
    for _ in range(int(step)):
        assert message is not None
        message = client.respond(exchange.respond(message, _NOW_MS))
    try:
        exchange.respond(case.data, _NOW_MS)
    except LoginRefused as refusal:
        if exchange.identity is not None:
            return f"refused, but logged in as {exchange.identity.principal}"
        shown = f"{refusal} {refusal.detail}"
        return "the refusal shows a secret" if _PASSWORD.reveal() in shown or _HEADER in shown else None
    identity = exchange.identity
    # A token without a signature may name any user; all others have proved that they are the only one.
    if identity is not None and identity.principal.name != _USER and mechanism != "OAUTHBEARER":
        return f"logged in as {identity.principal}"
    return None
