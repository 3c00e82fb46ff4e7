"""A listener's TLS takes key stores in every supported form, follows their files, and names what cannot be used.

Method: use certificates made by OpenSSL and, if keytool is installed, its key stores; do handshakes in memory.
"""

from __future__ import annotations

import logging
import os
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kafkawire.reference_broker.config.endpoints import Listener
from kafkawire.reference_broker.config.options import read_options
from kafkawire.reference_broker.config.security_settings import SecuritySettings, split_listener_options
from kafkawire.reference_broker.network.tls_settings import CHECK_MS, ListenerTls
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.transport.tls import PemFiles, tls_context
from kafkawire.sdk.transport.wire import Address
from tests.certificates import KEY_PASSWORD, Certificates
from tests.needs import JAVA, java_home

ADDRESS = Address("localhost", 0)


def listener_tls(given: dict[str, Any], *, is_server: bool = True) -> ListenerTls:
    listener = Listener("EXTERNAL", ADDRESS, ADDRESS, "SSL")
    own, of_listeners = split_listener_options(given)
    settings = SecuritySettings(read_options(own), of_listeners, [listener])
    return ListenerTls(listener, settings, is_server=is_server)


def pem(certificates: Certificates, **more: Any) -> dict[str, Any]:
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(certificates.broker), **more}


def handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> ssl.SSLObject:
    """Take a handshake in memory, and return the client's side."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = server.wrap_bio(to_server, to_client, server_side=True)
    far = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    for side in (far, near, far, near, far):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    near.do_handshake()
    return far


def trusting(certificates: Certificates, authority: Path | None = None) -> ssl.SSLContext:
    return tls_context(PemFiles(str(authority or certificates.authority)))


def test_a_file(certificates: Certificates) -> None:
    context = listener_tls(pem(certificates)).context(0)
    assert handshake(context, trusting(certificates)).version() == "TLSv1.3"
    assert context.verify_mode == ssl.CERT_NONE


@pytest.mark.parametrize(
    ("allowed", "reason"),
    [({}, "DistinguishedName does not match"), ({"ssl.allow.dn.changes": "true"}, "SubjectAltNames do not match")],
)
def test_a_certificate_of_another_name(certificates: Certificates, allowed: dict[str, str], reason: str) -> None:
    before = listener_tls(pem(certificates, **allowed))
    before.check_change(listener_tls(pem(certificates, **allowed)))
    after = listener_tls({**pem(certificates, **allowed), "ssl.keystore.location": str(certificates.elsewhere)})
    with pytest.raises(ConfigurationError, match=reason):
        before.check_change(after)
    all_allowed = {"ssl.allow.dn.changes": "true", "ssl.allow.san.changes": "true"}
    listener_tls(pem(certificates, **all_allowed)).check_change(after)


def test_text(certificates: Certificates) -> None:
    given = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": certificates.client_certificate.read_text(),
        "ssl.keystore.key": certificates.client_locked_key.read_text(),
        "ssl.key.password": KEY_PASSWORD,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": certificates.authority.read_text(),
        "ssl.client.auth": "requested",
    }
    context = listener_tls(given).context(0)
    assert context.verify_mode == ssl.CERT_OPTIONAL
    client = trusting(certificates)
    client.check_hostname = False
    handshake(context, client)


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_pkcs12(certificates: Certificates, tmp_path: Path, kind: str) -> None:
    """Java's type JKS stands for PKCS12 files, too."""
    pytest.importorskip("cryptography")
    store = tmp_path / "store.p12"
    command = ["openssl", "pkcs12", "-export", "-in", certificates.broker, "-out", store, "-passout", "pass:hunter2"]
    subprocess.run(command, check=True, capture_output=True)
    given = {"ssl.keystore.location": str(store), "ssl.keystore.password": "hunter2", "ssl.keystore.type": kind}
    handshake(listener_tls(given).context(0), trusting(certificates))
    with pytest.raises(ConfigurationError, match="listener EXTERNAL: cannot be used") as caught:
        listener_tls({**given, "ssl.keystore.password": "wrong-secret"})
    assert "wrong-secret" not in str(caught.value)


@JAVA.mark
def test_key_stores_of_java(certificates: Certificates, tmp_path: Path) -> None:
    pytest.importorskip("cryptography")

    def keytool(kind: str, name: str) -> str:
        location = str(tmp_path / name)
        command = [
            f"{java_home()}/bin/keytool",
            "-genkeypair",
            "-keyalg",
            "EC",
            "-alias",
            "broker",
            "-dname",
            "CN=localhost",
        ]
        command += ["-ext", "SAN=DNS:localhost", "-keystore", location, "-storetype", kind]
        subprocess.run([*command, "-storepass", "hunter2", "-keypass", "hunter2"], check=True, capture_output=True)
        return location

    given = {"ssl.keystore.password": "hunter2"}
    listener_tls({**given, "ssl.keystore.location": keytool("PKCS12", "a.jks")})
    with pytest.raises(ConfigurationError, match="keytool -importkeystore"):
        listener_tls({**given, "ssl.keystore.location": keytool("JKS", "b.jks")})


def test_client_certificates(certificates: Certificates) -> None:
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(certificates.authority)}
    context = listener_tls(pem(certificates, **trust, **{"ssl.client.auth": "required"})).context(0)
    assert context.verify_mode == ssl.CERT_REQUIRED
    showing = tls_context(PemFiles(str(certificates.authority), str(certificates.client)))
    handshake(context, showing)
    with pytest.raises(ssl.SSLError, match=r"(?i)did not return a certificate"):
        handshake(context, trusting(certificates))
    assert (
        listener_tls(pem(certificates, **{"ssl.client.auth": "required"})).context(0).verify_mode == ssl.CERT_REQUIRED
    )


@pytest.mark.parametrize(("versions", "expected"), [("TLSv1.2", "TLSv1.2"), ("TLSv1.2,TLSv1.3", "TLSv1.3")])
def test_versions(certificates: Certificates, versions: str, expected: str) -> None:
    context = listener_tls(pem(certificates, **{"ssl.enabled.protocols": versions})).context(0)
    assert handshake(context, trusting(certificates)).version() == expected


def test_cipher_suites(certificates: Certificates) -> None:
    suite = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    given = pem(certificates, **{"ssl.enabled.protocols": "TLSv1.2", "ssl.cipher.suites": suite})
    cipher = handshake(listener_tls(given).context(0), trusting(certificates)).cipher()
    assert cipher is not None
    assert cipher[0] == "ECDHE-ECDSA-AES128-GCM-SHA256"
    newer = "TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256"
    context = listener_tls(pem(certificates, **{"ssl.cipher.suites": newer})).context(0)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_3


@pytest.mark.parametrize(
    ("given", "option", "reason"),
    [
        ({}, "ssl.keystore.location", "a certificate is needed for TLS"),
        ({"listener.name.external.ssl.keystore.location": "/nowhere"},
         "listener.name.external.ssl.keystore.location", "JKS key stores are not supported"),
        ({"ssl.keystore.location": "/nowhere", "ssl.keystore.type": "PEM"}, "ssl.keystore.location", "No such file"),
        ({"ssl.keystore.location": "/nowhere", "ssl.keystore.type": "BKS"}, "ssl.keystore.type", "got BKS"),
        ({"ssl.keystore.certificate.chain": "x"}, "ssl.keystore.key", "is needed, too"),
        ({"ssl.keystore.key": "x"}, "ssl.keystore.certificate.chain", "is needed, too"),
        ({"ssl.keystore.key": "x", "ssl.keystore.certificate.chain": "x"}, "ssl.keystore.type", "expected PEM"),
        ({"ssl.keystore.key": "x", "ssl.keystore.certificate.chain": "x", "ssl.keystore.type": "PEM",
          "ssl.keystore.location": "/nowhere"}, "ssl.keystore.location", "cannot be combined"),
        ({"ssl.keystore.key": "-----BEGIN x", "ssl.keystore.certificate.chain": "-----BEGIN x",
          "ssl.keystore.type": "PEM"}, "ssl.keystore.location", "cannot be used"),
        ({"ssl.keystore.key": "-----BEGIN x", "ssl.keystore.certificate.chain": "/etc/passwd",
          "ssl.keystore.type": "PEM"}, "ssl.keystore.certificate.chain", "expected text in PEM"),
        ({"ssl.keystore.key": "/etc/passwd", "ssl.keystore.certificate.chain": "-----BEGIN x",
          "ssl.keystore.type": "PEM"}, "ssl.keystore.key", "expected text in PEM"),
    ],
)  # fmt: skip
def test_unusable_key_stores(given: dict[str, Any], option: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=f"listener EXTERNAL: .*{reason}") as caught:
        listener_tls(given)
    assert caught.value.option == option


def test_a_key_store_without_a_usable_key(certificates: Certificates, tmp_path: Path) -> None:
    """The reason names the broker's options, not the client's."""
    locked = tmp_path / "locked.pem"
    locked.write_text(certificates.client_locked_key.read_text() + certificates.client_certificate.read_text())
    for given, reason in (
        ({"ssl.keystore.location": str(certificates.broker)}, "the file is PEM, not JKS; set ssl.keystore.type=PEM"),
        (pem(certificates, **{"ssl.keystore.location": str(locked)}), "ssl.key.password is not given"),
        (
            pem(certificates, **{"ssl.keystore.location": str(locked), "ssl.key.password": "wrong"}),
            "ssl.key.password does not decrypt its private key",
        ),
        (
            pem(certificates, **{"ssl.keystore.location": str(certificates.authority)}),
            "there is a certificate in it, but no private key",
        ),
    ):
        with pytest.raises(ConfigurationError, match=f"listener EXTERNAL: .*{reason}") as caught:
            listener_tls(given)
        assert caught.value.option == "ssl.keystore.location"


@pytest.mark.parametrize(
    ("more", "option", "reason"),
    [
        ({"ssl.truststore.type": "PEM", "ssl.truststore.location": "/nowhere"}, "ssl.truststore.location", "No such"),
        ({"ssl.truststore.certificates": "x"}, "ssl.truststore.type", "expected PEM"),
        ({"ssl.truststore.type": "PEM", "ssl.truststore.certificates": "/etc/passwd"}, "ssl.truststore.certificates",
         "expected text in PEM"),
        ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "ssl.cipher.suites", "cannot be restricted"),
        ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256", "ssl.enabled.protocols": "TLSv1.2"}, "ssl.cipher.suites",
         "no suite belongs to a version"),
        ({"ssl.cipher.suites": "TLS_NO_SUCH", "ssl.enabled.protocols": "TLSv1.2"}, "ssl.cipher.suites", "OpenSSL"),
        ({"ssl.enabled.protocols": ""}, "ssl.enabled.protocols", "at least one"),
    ],
)  # fmt: skip
def test_unusable_settings(certificates: Certificates, more: dict[str, Any], option: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=f"listener EXTERNAL: .*{reason}") as caught:
        listener_tls(pem(certificates, **more))
    assert caught.value.option == option


def test_files_are_followed(certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    file = tmp_path / "broker.pem"
    file.write_bytes(certificates.broker.read_bytes())
    tls = listener_tls({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(file)})
    first = tls.context(0)
    replace(file, certificates.stranger.read_bytes())
    assert tls.context(CHECK_MS - 1) is first, "files are not checked for each connection"
    second = tls.context(CHECK_MS)
    assert second is not first
    other = certificates.authority.with_name("other.crt")
    handshake(second, trusting(certificates, other))
    assert "read the certificates of listener EXTERNAL again" in caplog.text
    replace(file, b"damaged")
    assert tls.context(2 * CHECK_MS) is second
    assert "the former ones stay" in caplog.text
    file.unlink()
    assert tls.context(3 * CHECK_MS) is second
    replace(file, certificates.broker.read_bytes())
    handshake(tls.context(4 * CHECK_MS), trusting(certificates))


def replace(file: Path, content: bytes) -> None:
    """Replace a file as programs that renew certificates do."""
    new = file.with_suffix(".new")
    new.write_bytes(content)
    os.replace(new, file)


def test_connections_to_other_brokers(certificates: Certificates, tmp_path: Path) -> None:
    file = tmp_path / "broker.pem"
    file.write_bytes(certificates.broker.read_bytes())
    given = pem(
        certificates,
        **{"ssl.truststore.type": "PEM", "ssl.truststore.location": str(certificates.authority)},
        **{"ssl.client.auth": "required", "ssl.keystore.location": str(file)},
    )
    server, client = listener_tls(given), listener_tls(given, is_server=False)
    assert client.context(0).check_hostname
    handshake(server.context(0), client.context(0))
    replace(file, certificates.stranger.read_bytes())
    assert client.context(CHECK_MS - 1) is client.context(0)
    with pytest.raises(ssl.SSLError, match="unable to get local issuer certificate"):
        handshake(server.context(0), client.context(CHECK_MS))
    unchecked = listener_tls({**given, "ssl.endpoint.identification.algorithm": ""}, is_server=False)
    assert not unchecked.context(0).check_hostname
    assert listener_tls({}, is_server=False).context(0).verify_mode == ssl.CERT_REQUIRED, "a certificate is not needed"
