"""The broker's side of SCRAM: users with a SCRAM credential, and delegation tokens (the extension `tokenauth`).

`kafkawire.sdk.protocol.scram` reads and computes the messages; this module looks up credentials and decides. As in
Kafka, an unknown user is refused at the first message, with the same text as a wrong password.

Source: RFC 5802; KIP-48; `ScramSaslServer` and `ScramServerCallbackHandler` in Apache Kafka.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple

from kafkawire.reference_broker.metadata.principal import USER, KafkaPrincipal
from kafkawire.reference_broker.security.credentials import ScramCredential, ScramCredentials, TokenCredentials
from kafkawire.reference_broker.security.sasl.mechanism import (
    Identity,
    InvalidCredentials,
    LoginAborted,
    LoginRefused,
)
from kafkawire.sdk.errors import BrokerError, RemoteProtocolError
from kafkawire.sdk.protocol.scram import ITERATIONS_MIN, ProofSizeError, ScramServer, make_credential
from kafkawire.sdk.secret import Secret
from kafkawire.sdk.states import Edges

__all__ = ["SCRAM_EDGES", "ScramExchange", "ScramState"]

#: The extension of a client that logs in with a delegation token.
_TOKEN_EXTENSION = "tokenauth"

#: The number of delegation tokens whose credentials are kept: computing one takes 2 to 12 ms, and blocks the broker.
_TOKENS_KEPT_MAX = 1_000


class ScramState(Enum):
    """The state of a login."""

    #: The first message has not arrived.
    FIRST = "first"
    #: The client was sent a challenge.
    CHALLENGED = "challenged"
    #: The client has proved that it knows the password.
    COMPLETE = "complete"
    #: The client was refused.
    FAILED = "failed"


SCRAM_EDGES: Final = Edges(
    "a login with SCRAM",
    (ScramState.FIRST,),
    {
        ScramState.FIRST: {
            ScramState.CHALLENGED: "the user has a credential",
            ScramState.FAILED: "the message is malformed, or the user has no usable credential",
        },
        ScramState.CHALLENGED: {
            ScramState.COMPLETE: "the proof is right",
            ScramState.FAILED: "the message is malformed, or the proof is wrong",
        },
        ScramState.COMPLETE: {ScramState.FAILED: "another message arrives"},
        ScramState.FAILED: {ScramState.FAILED: "another message arrives"},
    },
)


class _Known(NamedTuple):
    """The identity that a client has claimed, and the credential with which it can prove it."""

    identity: Identity
    credential: ScramCredential


class ScramExchange:
    """One login with SCRAM-SHA-256 or SCRAM-SHA-512.

    Args:
        mechanism: the name of the mechanism.
        nonce: printable ASCII without commas, random and used once.
        users: looks up users.
        tokens: looks up delegation tokens; None if there are none.
    """

    def __init__(self, mechanism: str, nonce: str, users: ScramCredentials, tokens: TokenCredentials | None) -> None:
        self.identity: Identity | None = None
        self._mechanism = mechanism
        self._server = ScramServer(mechanism, nonce)
        self._users = users
        self._tokens = tokens
        self._state = ScramState.FIRST
        self._claimed: Identity | None = None

    @property
    def state(self) -> ScramState:
        """The state of the login."""
        return self._state

    def respond(self, response: bytes, now_ms: int) -> bytes:
        """Answer the first message with a challenge, and the second one with the broker's proof; see `Exchange`."""
        try:
            answer, after = self._answer(response)
        except LoginRefused:
            self.identity = None
            self._state = SCRAM_EDGES.follow(self._state, ScramState.FAILED)
            raise
        self._state = SCRAM_EDGES.follow(self._state, after)
        if after is ScramState.COMPLETE:
            self.identity = self._claimed
        return answer

    def _answer(self, response: bytes) -> tuple[bytes, ScramState]:
        """Return the answer to a message, and the state that follows."""
        match self._state:
            case ScramState.FIRST:
                return self._challenge(response), ScramState.CHALLENGED
            case ScramState.CHALLENGED:
                return self._prove(response), ScramState.COMPLETE
        raise LoginAborted(f"{self._mechanism}: a message after the login was {self._state.value}")

    def _challenge(self, response: bytes) -> bytes:
        self._check_ascii(response)
        try:
            first = self._server.receive_first(response)
        except RemoteProtocolError as error:
            raise InvalidCredentials(self._mechanism, str(error)) from None
        is_token = first.extensions.get(_TOKEN_EXTENSION, "").lower() == "true"
        known = self._token(first.user) if is_token else self._user(first.user)
        if known is None:
            raise InvalidCredentials(self._mechanism, f"unknown {'delegation token' if is_token else 'user'}")
        if first.authorization_id not in ("", first.user):
            raise LoginRefused(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        if known.credential.iterations < ITERATIONS_MIN:
            reason = f"the credential has {known.credential.iterations} iterations, fewer than {ITERATIONS_MIN}"
            raise InvalidCredentials(self._mechanism, reason)
        self._claimed = known.identity
        return self._server.first_message(known.credential)

    def _check_ascii(self, response: bytes) -> None:
        """Refuse a message that is not ASCII, although RFC 5802 allows UTF-8 in names: Kafka does not accept it."""
        if not response.isascii():
            raise InvalidCredentials(self._mechanism, "the message is not ASCII")

    def _user(self, name: str) -> _Known | None:
        credential = self._users.scram_credential(self._mechanism, name)
        return None if credential is None else _Known(Identity(KafkaPrincipal(USER, name)), credential)

    def _token(self, token_id: str) -> _Known | None:
        found = None if self._tokens is None else self._tokens.token_credential(token_id)
        if found is None:
            return None
        credential = _token_credential(self._mechanism, token_id, Secret(found.hmac))
        return _Known(Identity(found.owner, found.expires_ms, is_token=True), credential)

    def _prove(self, response: bytes) -> bytes:
        self._check_ascii(response)
        try:
            return self._server.receive_final(response)
        except ProofSizeError as error:
            raise LoginAborted(str(error)) from None
        except (RemoteProtocolError, BrokerError) as error:
            raise InvalidCredentials(self._mechanism, str(error)) from None


@lru_cache(maxsize=_TOKENS_KEPT_MAX)
def _token_credential(mechanism: str, token_id: str, password: Secret) -> ScramCredential:
    """Return the credential of a delegation token, whose password is a random key, so any salt protects it."""
    return make_credential(mechanism, password.reveal(), token_id.encode(), ITERATIONS_MIN)
