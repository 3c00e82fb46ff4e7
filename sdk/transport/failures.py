"""Explain why a broker could not be reached: the connection phase, the error, and the probable cause.

Source: the `ssl` module, whose reasons are OpenSSL's.
"""

from __future__ import annotations

import ssl

from kafkawire.sdk.errors import AuthenticationFailed, ConnectFailed, ConnectionLost, KafkaWireError
from kafkawire.sdk.protocol.frames import LENGTH_BYTES, FrameTooLarge
from kafkawire.sdk.protocol.gate import ConnectionState
from kafkawire.sdk.transport.wire import Address

__all__ = ["connect_failed", "login_lost", "silence"]

#: The first bytes that servers of other protocols send, in greetings or error messages; read as the length of a frame,
#: each would mean more than 600 MB.
_OTHERS = {b"HTTP": "HTTP", b"<htm": "HTTP", b"<HTM": "HTTP", b"<!DO": "HTTP", b"SSH-": "SSH", b"-ERR": "Redis"}

#: The first bytes of TLS alert and handshake records; read as the length of a frame, each would mean more than 300 MB.
_TLS_RECORDS = (b"\x15\x03", b"\x16\x03")


#: Parts of the names of TLS alerts with which a server refuses this client's certificate, or all that it offers. Other
#: alerts are about the connection: an internal error, for example, or damaged data.
_REFUSALS = (
    "ACCESS_DENIED",
    "CERTIFICATE",
    "DECRYPT_ERROR",
    "HANDSHAKE_FAILURE",
    "INSUFFICIENT_SECURITY",
    "NO_APPLICATION_PROTOCOL",
    "PROTOCOL_VERSION",
    "UNKNOWN_CA",
)


def connect_failed(address: Address, state: ConnectionState, error: Exception) -> ConnectFailed:
    """Return an error that tells the user why a connection failed.

    Args:
        address: the broker's address.
        state: the state of the connection.
        error: the original error, which becomes the cause.
    """
    tls_error = error if isinstance(error, ssl.SSLError) else error.__cause__
    if isinstance(tls_error, ssl.SSLError) and (reason := _refused_by_tls(tls_error)):
        failed: ConnectFailed = AuthenticationFailed(address, reason, ConnectionState.TLS.value)
    elif state is ConnectionState.AUTHENTICATION and isinstance(error, KafkaWireError) and not error.retriable:
        failed = AuthenticationFailed(address, error, state.value)
    else:
        failed = ConnectFailed(address, _reason(state, error), state.value)
    failed.__cause__ = error
    return failed


def login_lost(address: Address, error: Exception) -> ConnectionLost:
    """Return the error for a connection that ends because the client could not log in again.

    It may pass, whatever the reason is: the broker has accepted an earlier login, and a new connection begins with
    another one.

    Args:
        address: the broker's address.
        error: the original error, which becomes the cause.
    """
    lost = ConnectionLost(f"connection to {address} was lost: the client could not log in again: {error}")
    lost.__cause__ = error
    return lost


def silence(state: ConnectionState, limit: str, *, is_encrypted: bool) -> str:
    """Return why a connection timed out, with the probable cause.

    Args:
        state: the state of the connection.
        limit: the name of the option and its value.
        is_encrypted: whether the connection uses TLS.
    """
    accepted = "it accepted the connection and"
    if state is ConnectionState.TLS:
        return f"{accepted} did not finish the handshake within {limit}: is this a TLS port?"
    if state is ConnectionState.VERSIONS:
        other = "an HTTPS" if is_encrypted else "a TLS or an HTTP"
        return f"{accepted} sent nothing within {limit}: is this {other} port?"
    return f"no response within {limit}"


def _refused_by_tls(error: ssl.SSLError) -> str | None:
    """Return why one side does not trust the other; None if the handshake failed for a different reason."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the broker's certificate is not trusted: {error.verify_message}"
    if "ALERT" not in (error.reason or "") or not any(name in error.reason for name in _REFUSALS):
        return None
    hint = "; it requires a client certificate, see ssl_keystore_location" if "CERTIFICATE" in error.reason else ""
    return f"the broker ended the handshake: {error.reason}{hint}"


def _reason(state: ConnectionState, error: Exception) -> str:
    if state is ConnectionState.TLS:
        return f"the handshake failed: {str(error) or type(error).__name__}; does this port use TLS?"
    if isinstance(error, FrameTooLarge):
        start = error.length.to_bytes(LENGTH_BYTES, "big", signed=True)
        if start[:2] in _TLS_RECORDS:
            return 'this port uses TLS: set security_protocol to "SSL" or "SASL_SSL"'
        if (protocol := _OTHERS.get(start)) is not None:
            return f"the server speaks {protocol}, so it is not a Kafka broker"
    text = str(error) or type(error).__name__
    if state is ConnectionState.VERSIONS and isinstance(error, ConnectionLost):
        # A broker sends its versions to every client that speaks its protocol; a port that expects TLS closes the
        # connection.
        return f"{text} before it sent its versions; is security_protocol right for this port?"
    return text
