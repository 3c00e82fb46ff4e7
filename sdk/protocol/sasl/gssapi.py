"""GSSAPI: Kerberos, through the package `gssapi` (the extra `kerberos`), which is imported on the first login.

The token exchange and the choice of a security layer were tested against a stand-in for that package, not against a
Kerberos server. Kafka has no security layer, so the client chooses none; TLS protects the connection.

Source: RFC 4752; `SaslClientAuthenticator` in Apache Kafka.
"""

from __future__ import annotations

from typing import Any

from kafkawire.sdk.errors import ConfigurationError, RemoteProtocolError
from kafkawire.sdk.protocol.sasl.authenticator import CredentialsUnavailable

__all__ = ["GssapiAuthenticator"]

#: The broker's offer begins with a flag byte, and the response with the chosen flag; in both, a three-byte size
#: follows.
_NO_LAYER = 1
_OFFER_BYTES = 4


class GssapiAuthenticator:
    """One login with a Kerberos ticket, which `kinit` or a keytab of this process provides.

    Args:
        service: the first part of the broker's principal, usually "kafka".
        host: the broker's name, the second part of the principal.

    Raises:
        ConfigurationError: the package `gssapi` is not installed.
        CredentialsUnavailable: the Kerberos server gives no ticket, or cannot be reached; `kinit` may be about to renew
            the ticket.
    """

    mechanism = "GSSAPI"

    def __init__(self, service: str, host: str) -> None:
        try:
            import gssapi  # an optional package, and slow to import
        except ImportError as error:
            reason = 'needs the package gssapi: pip install "kafkawire[kerberos]"'
            raise ConfigurationError("sasl_mechanism", self.mechanism, reason) from error
        self._failures: tuple[type[Exception], ...] = (gssapi.exceptions.GSSError,)
        self._is_settled = False
        try:
            name = gssapi.Name(f"{service}@{host}", name_type=gssapi.NameType.hostbased_service)
            self._context: Any = gssapi.SecurityContext(name=name, usage="initiate", mech=gssapi.MechType.kerberos)
            self._first: bytes = self._context.step() or b""
        except self._failures as error:
            raise CredentialsUnavailable(f"GSSAPI: no ticket for {service}@{host}: {error}") from error

    def first_message(self) -> bytes:
        return self._first

    def respond(self, challenge: bytes) -> bytes | None:
        """Continue the exchange; choose no security layer once the identities are proven."""
        if self._is_settled:
            if challenge:
                raise RemoteProtocolError(
                    f"GSSAPI: the broker sent a challenge of {len(challenge)} bytes after the login was complete"
                )
            return None
        try:
            if not self._context.complete:
                return self._context.step(challenge) or b""
            offer = self._context.unwrap(challenge).message
            if len(offer) != _OFFER_BYTES or not offer[0] & _NO_LAYER:
                raise RemoteProtocolError("GSSAPI: the broker requires a security layer, which Kafka does not support")
            identity = str(self._context.initiator_name).encode()
            self._is_settled = True
            answer: bytes = self._context.wrap(bytes([_NO_LAYER, 0, 0, 0]) + identity, False).message
        except self._failures as error:
            raise RemoteProtocolError(f"GSSAPI: {error}") from error
        return answer
