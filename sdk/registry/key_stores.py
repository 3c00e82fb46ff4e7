"""TLS with the key stores of Java programs: PEM is read directly, PKCS12 through `cryptography`, and JKS not at all.

Source: `KeyStoreFileType` in Apache ZooKeeper.
"""

from __future__ import annotations

import ssl
from collections.abc import Collection
from pathlib import Path
from typing import Final, NamedTuple

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.secret import Secret
from kafkawire.sdk.transport.tls import PemFiles, tls_context

__all__ = ["KeyStore", "context_of", "pem_of"]

#: The types, keyed by file name suffix.
_BY_SUFFIX: Final = {".pem": "PEM", ".p12": "PKCS12", ".pfx": "PKCS12", ".jks": "JKS"}

#: The start of the first certificate or key in a PEM file, and how many bytes of comments may precede it; `openssl
#: pkcs12` writes a few lines of them.
_BEGIN: Final = b"-----BEGIN "
_BEGINNING_BYTES: Final = 16_384

#: The command that creates a readable file.
_CONVERT_JKS: Final = "keytool -importkeystore -srckeystore FILE -destkeystore FILE.p12 -deststoretype PKCS12"
_CONVERT_PKCS12: Final = "openssl pkcs12 -in FILE -out FILE.pem"


class KeyStore(NamedTuple):
    """A file with certificates; this program's own file also contains a private key.

    Attributes:
        option: the option that names the file, for errors.
        location: the file; None if there is none.
        type: PEM, PKCS12 or JKS; None to infer it from the suffix of the file name.
        password: its password; None if it has none.
    """

    option: str
    location: str | None
    type: str | None
    password: Secret | None


def context_of(trusted: KeyStore, own: KeyStore, versions: Collection[str], *, checks_hostname: bool) -> ssl.SSLContext:
    """Return the TLS context for connections.

    Args:
        trusted: the certificates of trusted authorities; without a location, the system's certificates.
        own: the certificate and the private key of this program; without a location, the program has neither.
        versions: TLS versions, for example TLSv1.3.
        checks_hostname: whether the server's certificate must match the host name of the connection.

    Raises:
        ConfigurationError: a file cannot be read, or has an unsupported format; the error text says how to convert it.
    """
    authorities, certificate = pem_of(trusted), pem_of(own)
    try:
        # A PEM file contains both the certificate and the key.
        password_option = own.option.replace("location", "password")
        pem = PemFiles(authorities, certificate, None, own.password, checks_hostname, password_option)
        context = tls_context(pem)
    except ConfigurationError as error:
        store = trusted if error.option == "ssl_truststore_location" else own
        raise ConfigurationError(store.option, store.location, error.reason) from error.__cause__
    context.minimum_version = _version(min(versions))
    context.maximum_version = _version(max(versions))
    return context


def _version(name: str) -> ssl.TLSVersion:
    return ssl.TLSVersion[name.replace(".", "_")]


def pem_of(store: KeyStore) -> str | None:
    """Return the path of a PEM file, or the content of another key store as PEM; None without a location.

    A private key in the content is encrypted with the password of the store, if it has one.

    Raises:
        ConfigurationError: the file cannot be read, or has an unsupported format; the error text says how to convert
            it.
    """
    if store.location is None:
        return None
    kind = store.type or _BY_SUFFIX.get(Path(store.location).suffix.lower())
    if kind is None:
        type_option = store.option.replace("location", "type")
        reason = (
            f"its name does not show its type; set {type_option}, or use one of the suffixes {', '.join(_BY_SUFFIX)}"
        )
        raise ConfigurationError(store.option, store.location, reason)
    if kind != "PEM" and _is_pem(store.location):
        reason = f"the file is PEM, not {kind}; set {store.option.replace('location', 'type')}=PEM"
        raise ConfigurationError(store.option, store.location, reason)
    if kind == "JKS":
        reason = f"JKS key stores are not supported; convert the store: {_CONVERT_JKS}"
        raise ConfigurationError(store.option, store.location, reason)
    return store.location if kind == "PEM" else _from_pkcs12(store.option, store.location, store.password)


def _is_pem(location: str) -> bool:
    try:
        with open(location, "rb") as file:
            return _BEGIN in file.read(_BEGINNING_BYTES)
    except OSError:
        return False  # the error is reported when the whole file is read


def _from_pkcs12(option: str, location: str, password: Secret | None) -> str:
    """Return the certificates, and the private key if there is one, as PEM."""
    try:
        from cryptography.hazmat.primitives.serialization import (
            BestAvailableEncryption,
            Encoding,
            NoEncryption,
            PrivateFormat,
            pkcs12,
        )
    except ImportError:
        reason = f"a PKCS12 key store requires the package cryptography; alternatively, convert it: {_CONVERT_PKCS12}"
        raise ConfigurationError(option, location, reason) from None
    phrase = None if password is None else password.reveal().encode()
    try:
        content = pkcs12.load_pkcs12(Path(location).read_bytes(), phrase)
    except (OSError, ValueError) as error:
        raise ConfigurationError(option, location, f"cannot be used: {error}") from error
    parts = []
    if content.key is not None:
        encryption = BestAvailableEncryption(phrase) if phrase else NoEncryption()
        parts.append(content.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
    certificates = [content.cert, *content.additional_certs]
    parts += [each.certificate.public_bytes(Encoding.PEM) for each in certificates if each is not None]
    return b"".join(parts).decode()
