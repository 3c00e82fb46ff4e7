"""The error for a failed connection says which phase the connection reached, what went wrong, and what to do about it.

Method: convert a table of errors as raised by `ssl` and sockets; test_stream.py and tests/kafka/test_security.py test
real errors.
"""

from __future__ import annotations

import ssl

import pytest

from kafkawire.sdk.errors import (
    AuthenticationFailed,
    BrokerError,
    ConfigurationError,
    ConnectFailed,
    ConnectionLost,
    KafkaWireError,
    RemoteProtocolError,
    RequestTimedOut,
)
from kafkawire.sdk.protocol.frames import FrameTooLarge
from kafkawire.sdk.protocol.gate import ConnectionState
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.failures import connect_failed, login_lost, silence
from kafkawire.sdk.transport.wire import Address

ADDRESS = Address("broker", 9092)
STATE = ConnectionState
REFUSED = BrokerError(ErrorCode.SASL_AUTHENTICATION_FAILED, "PLAIN: wrong password")


def tls_error(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}]")
    error.reason = reason
    return error


def untrusted() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.reason = "CERTIFICATE_VERIFY_FAILED"
    error.verify_message = "self-signed certificate"
    return error


def caused_by(cause: Exception) -> ConnectionLost:
    lost = ConnectionLost("connection to broker:9092 was lost")
    lost.__cause__ = cause
    return lost


@pytest.mark.parametrize(
    ("state", "error", "phase", "text"),
    [
        (STATE.RESOLVING, OSError("Name or service not known"), "dns", "dns: Name or service not known$"),
        (STATE.CONNECTING, ConnectionRefusedError("Connection refused"), "tcp", "tcp: Connection refused$"),
        (STATE.TLS, ConnectionResetError(), "tls", "tls: the handshake failed: ConnectionResetError; does this port"),
        (STATE.TLS, tls_error("WRONG_VERSION_NUMBER"), "tls", "WRONG_VERSION_NUMBER.*; does this port use TLS"),
        (STATE.VERSIONS, RemoteProtocolError("rubbish"), "versions", "versions: rubbish$"),
        (STATE.VERSIONS, FrameTooLarge(0x15030300, 100), "versions", 'uses TLS: set security_protocol to "SSL"'),
        (STATE.VERSIONS, FrameTooLarge(0x16030100, 100), "versions", "uses TLS"),
        (
            STATE.VERSIONS,
            FrameTooLarge(0x48545450, 100),
            "versions",
            "the server speaks HTTP, so it is not a Kafka broker$",
        ),
        (
            STATE.VERSIONS,
            FrameTooLarge(0x5353482D, 100),
            "versions",
            "the server speaks SSH, so it is not a Kafka broker$",
        ),
        (
            STATE.VERSIONS,
            FrameTooLarge(0x48545451, 100),
            "versions",
            "the length prefix says 1213486161 bytes",
        ),
        (STATE.VERSIONS, ConnectionLost("closed"), "versions", "sent its versions; is security_protocol right"),
        (STATE.VERSIONS, FrameTooLarge(-1, 100), "versions", "versions: the length prefix says -1 bytes"),
        (STATE.VERSIONS, RequestTimedOut(""), "versions", "versions: RequestTimedOut$"),
        (STATE.AUTHENTICATION, ConnectionLost("closed by the broker"), "sasl", "sasl: closed by the broker$"),
        (STATE.TLS, tls_error("TLSV1_ALERT_INTERNAL_ERROR"), "tls", "handshake failed: .*TLSV1_ALERT_INTERNAL_ERROR"),
        (STATE.TLS, tls_error("TLSV1_ALERT_USER_CANCELLED"), "tls", "handshake failed: .*TLSV1_ALERT_USER_CANCELLED"),
        (STATE.TLS, tls_error("SSLV3_ALERT_BAD_RECORD_MAC"), "tls", "handshake failed: .*SSLV3_ALERT_BAD_RECORD_MAC"),
    ],
)
def test_what_may_pass(state: ConnectionState, error: Exception, phase: str, text: str) -> None:
    failed = connect_failed(ADDRESS, state, error)
    assert type(failed) is ConnectFailed
    assert failed.retriable
    assert failed.phase == phase
    assert failed.__cause__ is error
    with pytest.raises(KafkaWireError, match=f"^cannot connect to broker:9092: .*{text}"):
        raise failed


@pytest.mark.parametrize(
    ("state", "error", "phase", "text"),
    [
        (STATE.TLS, untrusted(), "tls", "the broker's certificate is not trusted: self-signed certificate$"),
        (STATE.TLS, tls_error("TLSV1_ALERT_UNKNOWN_CA"), "tls", "ended the handshake: TLSV1_ALERT_UNKNOWN_CA$"),
        (STATE.TLS, tls_error("SSLV3_ALERT_HANDSHAKE_FAILURE"), "tls", "handshake: SSLV3_ALERT_HANDSHAKE_FAILURE$"),
        (STATE.TLS, tls_error("TLSV1_ALERT_PROTOCOL_VERSION"), "tls", "handshake: TLSV1_ALERT_PROTOCOL_VERSION$"),
        (
            STATE.VERSIONS,
            caused_by(tls_error("TLSV13_ALERT_CERTIFICATE_REQUIRED")),
            "tls",
            "CERTIFICATE_REQUIRED; it requires a client certificate, see ssl_keystore_location$",
        ),
        (STATE.AUTHENTICATION, REFUSED, "sasl", "sasl: SASL_AUTHENTICATION_FAILED: PLAIN: wrong password$"),
        (STATE.AUTHENTICATION, RemoteProtocolError("forged"), "sasl", "sasl: forged$"),
    ],
)  # fmt: skip
def test_what_will_not_pass(state: ConnectionState, error: Exception, phase: str, text: str) -> None:
    failed = connect_failed(ADDRESS, state, error)
    assert type(failed) is AuthenticationFailed
    assert not failed.retriable
    assert failed.phase == phase
    assert failed.__cause__ is error
    with pytest.raises(KafkaWireError, match=f"^cannot connect to broker:9092: .*{text}"):
        raise failed


@pytest.mark.parametrize("error", [REFUSED, ConnectionLost("closed"), ConfigurationError("a", 1, "no")])
def test_another_login_that_fails_ends_the_connection_alone(error: KafkaWireError) -> None:
    lost = login_lost(ADDRESS, error)
    assert (type(lost), lost.retriable, lost.__cause__) == (ConnectionLost, True, error)
    assert str(lost) == f"connection to broker:9092 was lost: the client could not log in again: {error}"


@pytest.mark.parametrize(
    ("state", "is_encrypted", "expected"),
    [
        (STATE.CONNECTING, False, "no response within x=5"),
        (
            STATE.TLS,
            True,
            "it accepted the connection and did not finish the handshake within x=5: is this a TLS port?",
        ),
        (
            STATE.VERSIONS,
            False,
            "it accepted the connection and sent nothing within x=5: is this a TLS or an HTTP port?",
        ),
        (STATE.VERSIONS, True, "it accepted the connection and sent nothing within x=5: is this an HTTPS port?"),
        (STATE.AUTHENTICATION, False, "no response within x=5"),
    ],
)
def test_a_server_that_says_nothing(state: ConnectionState, is_encrypted: bool, expected: str) -> None:
    assert silence(state, "x=5", is_encrypted=is_encrypted) == expected
