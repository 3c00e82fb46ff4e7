"""TLS for connections to brokers, with PEM certificates that are verified by default.

Source: KIP-651 (PEM files and strings); the `ssl` module.
"""

from __future__ import annotations

import ssl
from os.path import join
from typing import NamedTuple

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.secret import Secret

__all__ = ["PemFiles", "tls_context"]


class PemFiles(NamedTuple):
    """The sources of trust and identity; each is a path or the PEM text itself.

    Attributes:
        authorities: certificates of the trusted authorities; None for the system's certificates.
        certificate: this client's certificate chain, optionally with its private key; None to send no certificate.
        key: the private key, if it is not in the same place as the certificate.
        key_password: decrypts the private key.
        checks_hostname: whether the broker's certificate must match the host name to which the client connects.
    """

    authorities: str | None = None
    certificate: str | None = None
    key: Secret | None = None
    key_password: Secret | None = None
    checks_hostname: bool = True


def tls_context(pem: PemFiles, *, is_server: bool = False) -> ssl.SSLContext:
    """Return the context for connections, which requires TLS 1.2 or later; a client verifies certificates.

    Args:
        pem: the sources of trust and identity.
        is_server: whether connections are accepted. A server asks for no certificate and trusts only `authorities`,
            unless the caller changes that.

    Raises:
        ConfigurationError: a file cannot be read or is not PEM, or the private key does not match the certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = pem.checks_hostname and not is_server
    if pem.authorities is not None:
        _load_authorities(context, pem.authorities)
    elif not is_server:
        context.load_default_certs()
    if pem.certificate is not None:
        _load_identity(context, pem.certificate, pem.key, pem.key_password)
    return context


def _load_authorities(context: ssl.SSLContext, authorities: str) -> None:
    try:
        if _is_text(authorities):
            # Bundles contain comments between the certificates, sometimes in other alphabets.
            context.load_verify_locations(cadata=authorities.encode("ascii", "ignore").decode())
        else:
            context.load_verify_locations(cafile=authorities)
    except (OSError, ValueError) as error:
        raise _unusable("ssl_truststore_location", authorities, error) from error


def _load_identity(context: ssl.SSLContext, certificate: str, key: Secret | None, password: Secret | None) -> None:
    from tempfile import TemporaryDirectory  # only clients that send a certificate need it

    key_pem = None if key is None else key.reveal()
    # `ssl` reads only files, so a string is written to a temporary file that no other user can read.
    with TemporaryDirectory() as folder:
        try:
            context.load_cert_chain(
                _as_file(certificate, join(folder, "certificate")),
                None if key_pem is None else _as_file(key_pem, join(folder, "key")),
                # Without a password, OpenSSL would ask for one on the terminal.
                password=lambda: password.reveal() if password is not None else "",
            )
        except (OSError, ValueError) as error:
            raise _unusable("ssl_keystore_location", certificate, error) from error


def _is_text(pem: str) -> bool:
    return "-----BEGIN" in pem


def _as_file(pem: str, path: str) -> str:
    if not _is_text(pem):
        return pem
    with open(path, "w", encoding="utf-8") as file:
        file.write(pem)
    return path


def _unusable(option: str, pem: str, error: Exception) -> ConfigurationError:
    return ConfigurationError(option, "PEM text" if _is_text(pem) else pem, f"cannot be used: {error}")
