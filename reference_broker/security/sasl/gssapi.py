"""The broker's side of GSSAPI: Kerberos, through the package `gssapi` (the extra `kerberos`).

The package's library reads the keytab when a login begins; nothing goes over the network. As in Kafka, no security
layer is offered, and an authorization id is ignored. Kafka means to close the connection of a client that should try
again, for example after a replay, but on Java 17 it cannot tell the reason, and refuses the client like any other.

Source: RFC 4752; `SaslServerAuthenticator` in Apache Kafka; `GssKrb5Server` in Java, which it uses.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from kafkawire.reference_broker.metadata.principal import USER, KafkaPrincipal
from kafkawire.reference_broker.security.sasl.kerberos_names import NoShortName, ShortNames, parse_kerberos_name
from kafkawire.reference_broker.security.sasl.mechanism import (
    Identity,
    InvalidCredentials,
    LoginAborted,
    LoginRefused,
)
from kafkawire.sdk.states import Edges

__all__ = ["GSSAPI", "GSSAPI_EDGES", "Acceptor", "GssapiExchange", "GssapiState"]

GSSAPI = "GSSAPI"

#: The flag for "no security layer", and the message that offers it: as in Java, with a buffer size of 64 KiB.
_NO_LAYER: Final = 1
_OFFER: Final = bytes([_NO_LAYER, 1, 0, 0])


class GssapiState(Enum):
    """The state of a login."""

    #: The identities have not been proved.
    TOKENS = "waiting for a token"
    #: The client is due to acknowledge the last token.
    ACKNOWLEDGEMENT = "waiting for an acknowledgement"
    #: The client was offered no security layer.
    OFFERED = "waiting for the choice of a security layer"
    #: The client has logged in.
    COMPLETE = "complete"
    #: The client was refused.
    FAILED = "failed"


_REFUSED = "the message is refused"

GSSAPI_EDGES: Final = Edges(
    "a login with GSSAPI",
    (GssapiState.TOKENS,),
    {
        GssapiState.TOKENS: {
            GssapiState.TOKENS: "the library needs another token",
            GssapiState.ACKNOWLEDGEMENT: "the library is done, and has a token for the client",
            GssapiState.OFFERED: "the library is done",
            GssapiState.FAILED: _REFUSED,
        },
        GssapiState.ACKNOWLEDGEMENT: {GssapiState.OFFERED: "an empty message arrives", GssapiState.FAILED: _REFUSED},
        GssapiState.OFFERED: {GssapiState.COMPLETE: "the client has chosen", GssapiState.FAILED: _REFUSED},
        GssapiState.COMPLETE: {GssapiState.FAILED: "another message arrives"},
        GssapiState.FAILED: {GssapiState.FAILED: "another message arrives"},
    },
)


class Acceptor:
    """The broker's own principal, with which it accepts tickets.

    Args:
        principal: the principal, for example kafka/host@REALM.
        keytab: the file with its key; None for the library's default.

    Attributes:
        realm: the principal's realm, which is the default realm of Kerberos if the principal does not name one.

    Raises:
        ImportError: the package `gssapi` is not installed.
        ValueError: the principal has no key in the keytab, or is not a name of Kerberos.
    """

    def __init__(self, principal: str, keytab: str | None) -> None:
        import gssapi  # an optional package, and slow to import

        package: Any = gssapi
        self._package = package
        self.failures: tuple[type[Exception], ...] = (package.exceptions.GSSError,)
        store = {} if keytab is None else {"store": {"keytab": f"FILE:{keytab}"}}
        try:
            name = package.Name(principal, name_type=package.NameType.kerberos_principal)
            self._credentials = package.Credentials(
                name=name, usage="accept", mechs=[package.MechType.kerberos], **store
            )
        except self.failures as error:
            raise ValueError(f"the key of {principal} cannot be used: {error}") from error
        self.realm = parse_kerberos_name(str(self._credentials.name)).realm or ""

    def context(self) -> Any:
        """Return the library's side of one login."""
        return self._package.SecurityContext(creds=self._credentials, usage="accept")


class GssapiExchange:
    """One login with a Kerberos ticket.

    Args:
        acceptor: the broker's principal.
        names: translates the client's principal to a user name.
    """

    def __init__(self, acceptor: Acceptor, names: ShortNames) -> None:
        self.identity: Identity | None = None
        self._context = acceptor.context()
        self._failures = acceptor.failures
        self._names = names
        self._state = GssapiState.TOKENS

    @property
    def state(self) -> GssapiState:
        """The state of the login."""
        return self._state

    def respond(self, response: bytes, now_ms: int) -> bytes:
        """Continue the exchange of tokens, then agree on having no security layer; see `Exchange`."""
        try:
            answer, after = self._answer(response)
        except LoginRefused:
            self._fail()
            raise
        except self._failures as error:
            self._fail()
            raise InvalidCredentials(GSSAPI, f"GSSAPI: {error}") from None
        self._state = GSSAPI_EDGES.follow(self._state, after)
        return answer

    def _fail(self) -> None:
        self.identity = None
        self._state = GSSAPI_EDGES.follow(self._state, GssapiState.FAILED)

    def _answer(self, response: bytes) -> tuple[bytes, GssapiState]:
        """Return the answer to a message, and the state that follows."""
        match self._state:
            case GssapiState.TOKENS:
                token: bytes = self._context.step(response) or b""
                if not self._context.complete:
                    return token, GssapiState.TOKENS
                return (token, GssapiState.ACKNOWLEDGEMENT) if token else (self._offer(), GssapiState.OFFERED)
            case GssapiState.ACKNOWLEDGEMENT:
                if response:
                    raise InvalidCredentials(GSSAPI, f"GSSAPI: {len(response)} bytes in place of an acknowledgement")
                return self._offer(), GssapiState.OFFERED
            case GssapiState.OFFERED:
                self._accept(self._context.unwrap(response).message)
                return b"", GssapiState.COMPLETE
        raise LoginAborted(f"GSSAPI: a message after the login was {self._state.value}")

    def _offer(self) -> bytes:
        offer: bytes = self._context.wrap(_OFFER, False).message
        return offer

    def _accept(self, choice: bytes) -> None:
        """Check the client's choice of a security layer; an authorization id may follow."""
        if len(choice) < len(_OFFER):
            raise LoginAborted(f"GSSAPI: the choice of a security layer has {len(choice)} bytes")
        if not choice[0] & _NO_LAYER:
            raise InvalidCredentials(GSSAPI, "GSSAPI: the client chose a security layer, but none was offered")
        try:
            name = self._names.short_name(parse_kerberos_name(str(self._context.initiator_name)))
        except (ValueError, NoShortName) as error:
            raise LoginAborted(f"GSSAPI: {error}") from None
        self.identity = Identity(KafkaPrincipal(USER, name))
