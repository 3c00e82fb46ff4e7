"""Certificates are read from files and strings, and are verified by default; errors name those that cannot be used.

Method: inspect contexts, and let pairs of them do a handshake in memory.
"""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.secret import Secret
from kafkawire.sdk.transport.tls import PemFiles, tls_context
from tests.certificates import KEY_PASSWORD, Certificates


def handshake(client: ssl.SSLContext, server: ssl.SSLContext, name: str = "localhost") -> ssl.SSLObject:
    """Let two contexts do a handshake, and return the server's end."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(to_client, to_server, server_hostname=name)
    far = server.wrap_bio(to_server, to_client, server_side=True)
    for end in (near, far) * 4:
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
    assert near.version() is not None
    return far


def test_defaults() -> None:
    context = tls_context(PemFiles())
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize("as_text", [False, True])
def test_an_authority(certificates: Certificates, as_text: bool) -> None:
    text = f"Autorit\u00e9 de certification\n{certificates.authority.read_text()}"
    authorities = text if as_text else str(certificates.authority)
    context = tls_context(PemFiles(authorities))
    handshake(context, certificates.context(certificates.broker))
    for stranger in (certificates.stranger, certificates.elsewhere):
        with pytest.raises(ssl.SSLCertVerificationError):
            handshake(context, certificates.context(stranger))


def test_a_host_that_is_not_checked(certificates: Certificates) -> None:
    context = tls_context(PemFiles(str(certificates.authority), checks_hostname=False))
    handshake(context, certificates.context(certificates.elsewhere))
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(context, certificates.context(certificates.stranger))


def test_without_an_authority_those_of_the_system_count(certificates: Certificates) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tls_context(PemFiles()), certificates.context(certificates.broker))


def test_an_authority_of_the_system_is_trusted(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))  # where OpenSSL looks by default
    handshake(tls_context(PemFiles()), certificates.context(certificates.broker))


def identities(certificates: Certificates) -> dict[str, tuple[str, Secret | None, Secret | None]]:
    """Return a client's certificate, key and password in every form."""
    whole, certificate = certificates.client, certificates.client_certificate
    key, locked = certificates.client_key, certificates.client_locked_key
    password = Secret(KEY_PASSWORD)
    return {
        "one file": (str(whole), None, None),
        "one text": (whole.read_text(), None, None),
        "two files": (str(certificate), Secret(str(key)), None),
        "two texts": (certificate.read_text(), Secret(key.read_text()), None),
        "a file and a text": (str(certificate), Secret(key.read_text()), None),
        "a locked file": (str(certificate), Secret(str(locked)), password),
        "a locked text": (certificate.read_text(), Secret("\n" + locked.read_text()), password),
        "a password that is not needed": (str(whole), None, password),
    }


@pytest.mark.parametrize(
    "form",
    [
        *("one file", "one text", "two files", "two texts", "a file and a text", "a locked file", "a locked text"),
        "a password that is not needed",
    ],
)
def test_a_client_that_shows_who_it_is(certificates: Certificates, form: str) -> None:
    certificate, key, password = identities(certificates)[form]
    context = tls_context(PemFiles(str(certificates.authority), certificate, key, password))
    server_end = handshake(context, certificates.context(certificates.broker, wants_client=True))
    shown = server_end.getpeercert()
    assert shown is not None
    assert shown["subject"] == ((("commonName", "client"),),)


@pytest.mark.parametrize(
    ("pem", "text"),
    [
        (PemFiles("/nowhere/ca.pem"), "ssl_truststore_location='/nowhere/ca.pem': cannot be used: .*No such file"),
        (PemFiles("-----BEGIN CERTIFICATE-----\nx"), "ssl_truststore_location='PEM text': cannot be used"),
        (PemFiles("-----BEGIN CERT\u00e4"), "ssl_truststore_location='PEM text': cannot be used"),
        (PemFiles(__file__), "ssl_truststore_location=.*cannot be used"),
        (PemFiles(None, "/nowhere/a.pem"), "ssl_keystore_location='/nowhere/a.pem': cannot be used: .*No such file"),
        (PemFiles(None, "-----BEGIN CERTIFICATE-----\nx"), "ssl_keystore_location='PEM text': cannot be used"),
        (PemFiles(None, pytest.__file__), "cannot be used: there is no certificate in PEM format in it"),
    ],
)  # fmt: skip
def test_files_that_cannot_be_used(pem: PemFiles, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        tls_context(pem)


@pytest.mark.parametrize(
    ("password", "reason"),
    [
        (None, "its private key is encrypted, and ssl_key_password is not given"),
        (Secret("hunter2"), "ssl_key_password does not decrypt its private key"),
        (Secret("x" * 5000), "password cannot be longer than"),
    ],
)
def test_a_locked_key_without_its_password(certificates: Certificates, password: Secret | None, reason: str) -> None:
    """Loading fails instead of prompting on the terminal."""
    locked = Secret(certificates.client_locked_key.read_text())
    with pytest.raises(ConfigurationError, match=f"ssl_keystore_location=.*cannot be used: {reason}") as caught:
        tls_context(PemFiles(None, str(certificates.client_certificate), locked, password))
    assert "hunter2" not in str(caught.value)
    assert "PRIVATE KEY" not in str(caught.value)


def test_a_locked_key_in_the_format_before_pkcs8(certificates: Certificates) -> None:
    """OpenSSL before 3 wrote the keys of `genrsa` and `ecparam` like this."""
    chain = certificates.client_certificate.read_text()
    key = Secret("-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nx\n")
    with pytest.raises(ConfigurationError, match="its private key is encrypted, and ssl_key_password is not given"):
        tls_context(PemFiles(None, chain, key))


def test_no_private_key(certificates: Certificates) -> None:
    certificate = certificates.client_certificate
    for own in (str(certificate), certificate.read_text()):
        with pytest.raises(ConfigurationError, match="used: there is a certificate in it, but no private key in PEM"):
            tls_context(PemFiles(None, own))
    with pytest.raises(ConfigurationError, match="used: its key is no private key in PEM format"):
        tls_context(PemFiles(None, str(certificate), Secret(str(certificate))))


def test_a_key_of_another_certificate(certificates: Certificates) -> None:
    key = Secret(certificates.broker.read_text())
    with pytest.raises(ConfigurationError, match=r"(?i)key.values.mismatch"):
        tls_context(PemFiles(None, str(certificates.client_certificate), key))


def test_texts_leave_no_files_behind(
    certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    tls_context(PemFiles(None, certificates.client.read_text()))
    assert list(tmp_path.iterdir()) == []
