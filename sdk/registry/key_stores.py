"""TLS from the key stores that a Java program has: PEM as it is, PKCS12 through `cryptography`, JKS not at all.

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

__all__ = ["KeyStore", "context_of"]

#: The types, by the end of the file's name.
_BY_SUFFIX: Final = {".pem": "PEM", ".p12": "PKCS12", ".pfx": "PKCS12", ".jks": "JKS"}

#: How to make a file that can be read.
_CONVERT_JKS: Final = "keytool -importkeystore -srckeystore FILE -destkeystore FILE.p12 -deststoretype PKCS12"
_CONVERT_PKCS12: Final = "openssl pkcs12 -in FILE -out FILE.pem"


class KeyStore(NamedTuple):
    """A file with certificates, and with a private key if it is that of this program.

    Attributes:
        option: the option that names it, for errors.
        location: the file; None for none.
        type: PEM, PKCS12 or JKS; None to tell it by the end of the file's name.
        password: its password; None for none.
    """

    option: str
    location: str | None
    type: str | None
    password: Secret | None


def context_of(trusted: KeyStore, own: KeyStore, versions: Collection[str], *, checks_hostname: bool) -> ssl.SSLContext:
    """Return the context for connections.

    Args:
        trusted: the certificates of trusted authorities; without a location, those of the system.
        own: the certificate and the private key of this program; without a location, none.
        versions: of TLS, such as TLSv1.3.
        checks_hostname: whether the server's certificate must match the name that is connected to.

    Raises:
        ConfigurationError: a file cannot be read, or has another format; the text says how to convert it.
    """
    authorities, certificate = _pem(trusted), _pem(own)
    try:
        # A file of PEM has the certificate and the key.
        context = tls_context(PemFiles(authorities, certificate, None, own.password, checks_hostname))
    except ConfigurationError as error:
        store = trusted if error.option == "ssl_truststore_location" else own
        raise ConfigurationError(store.option, store.location, error.reason) from error.__cause__
    context.minimum_version = _version(min(versions))
    context.maximum_version = _version(max(versions))
    return context


def _version(name: str) -> ssl.TLSVersion:
    return ssl.TLSVersion[name.replace(".", "_")]


def _pem(store: KeyStore) -> str | None:
    """Return the path of a file of PEM, or the PEM text of another key store; None without a location."""
    if store.location is None:
        return None
    kind = store.type or _BY_SUFFIX.get(Path(store.location).suffix.lower())
    if kind is None:
        type_option = store.option.replace("location", "type")
        reason = f"its name does not tell its type; set {type_option}, or let it end with {', '.join(_BY_SUFFIX)}"
        raise ConfigurationError(store.option, store.location, reason)
    if kind == "JKS":
        reason = f"key stores of the type JKS cannot be read; convert it: {_CONVERT_JKS}"
        raise ConfigurationError(store.option, store.location, reason)
    return store.location if kind == "PEM" else _from_pkcs12(store.option, store.location, store.password)


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
        reason = f"a key store of the type PKCS12 needs the package cryptography; or convert it: {_CONVERT_PKCS12}"
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
