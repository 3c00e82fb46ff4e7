"""A TLS context is made from key stores; the error for an unreadable key store says how to convert it.

Method: read files from the fixture `certificates`; the tests of TLS itself do an in-memory handshake.
"""

from __future__ import annotations

import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.registry.key_stores import KeyStore, context_of
from kafkawire.sdk.secret import Secret
from tests.certificates import KEY_PASSWORD, Certificates

NONE = KeyStore("own", None, None, None)


def context(trusted: KeyStore, own: KeyStore = NONE) -> ssl.SSLContext:
    return context_of(trusted, own, ("TLSv1.2",), checks_hostname=True)


def authorities(found: ssl.SSLContext) -> set[str]:
    """Return the common names of the trusted authorities."""
    names = [name for each in found.get_ca_certs() for part in each["subject"] for name in part]
    return {str(value) for key, value in names if key == "commonName"}


@pytest.mark.parametrize(("name", "kind"), [("authority.pem", None), ("authority", "PEM")])
def test_pem(certificates: Certificates, tmp_path: Path, name: str, kind: str | None) -> None:
    path = tmp_path / name
    path.write_text(certificates.authority.read_text())
    found = context(KeyStore("trusted", str(path), kind, None))
    assert authorities(found) == {"kafkawire test authority"}
    assert found.maximum_version is ssl.TLSVersion.TLSv1_2


def test_a_private_key_with_a_password(certificates: Certificates, tmp_path: Path) -> None:
    path = tmp_path / "own.pem"
    path.write_text(certificates.client_locked_key.read_text() + certificates.client_certificate.read_text())
    context(NONE, KeyStore("own", str(path), None, Secret(KEY_PASSWORD)))
    for password, reason in (
        (None, "its private key is encrypted, and own_password is not given"),
        (Secret("wrong"), "own_password does not decrypt its private key"),
    ):
        with pytest.raises(ConfigurationError, match=f"^own_location=.*own.pem'?: cannot be used: {reason}"):
            context(NONE, KeyStore("own_location", str(path), None, password))


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("store.jks", None, "JKS key stores are not supported; convert the store: keytool -importkeystore"),
        ("store", "JKS", "JKS key stores are not supported"),
        ("store", None, r"its name does not show its type; set the_type, or use one of the suffixes \.pem, \.p12"),
        ("none.pem", None, "cannot be used: .*No such file"),
    ],
)
def test_what_cannot_be_used(tmp_path: Path, name: str, kind: str | None, text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^the_location=.*: {text}"):
        context(KeyStore("the_location", str(tmp_path / name), kind, None))


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_a_pem_file_with_another_type(certificates: Certificates, tmp_path: Path, kind: str) -> None:
    """Kafka's default type is JKS, whatever the name of the file."""
    path = tmp_path / "own.pem"
    path.write_text("Bag Attributes\n" + certificates.client.read_text())
    with pytest.raises(ConfigurationError, match=f"^own_location=.*: the file is PEM, not {kind}; set own_type=PEM$"):
        context(NONE, KeyStore("own_location", str(path), kind, None))


def test_pkcs12_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)
    with pytest.raises(
        ConfigurationError, match="requires the package cryptography; alternatively, convert it: openssl"
    ):
        context(KeyStore("trusted", str(tmp_path / "store.p12"), None, None))


def test_pkcs12(certificates: Certificates, tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    path = tmp_path / "own.p12"
    subprocess.run(
        ["openssl", "pkcs12", "-export", "-out", path, "-in", certificates.client, "-passout", "pass:word",
         "-certfile", certificates.authority],
        check=True, capture_output=True,
    )  # fmt: skip
    own = KeyStore("own", str(path), None, Secret("word"))
    context(NONE, own)
    assert "kafkawire test authority" in authorities(context(own._replace(option="trusted")))
    with pytest.raises(ConfigurationError, match="cannot be used"):
        context(NONE, own._replace(password=Secret("wrong")))
