"""TLS for connections to brokers, with PEM certificates that are verified by default.

Source: KIP-651 (PEM files and strings); the `ssl` module.
"""

from __future__ import annotations

import ssl
from os.path import join
from typing import Final, NamedTuple

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.secret import Secret

__all__ = ["PemFiles", "tls_context"]

#: What the lines around a certificate and a private key contain, whatever the kind of the key, and the marks of an
#: encrypted key: PKCS #8, and OpenSSL's older formats.
_CERTIFICATE: Final = "CERTIFICATE-----"
_PRIVATE_KEY: Final = "PRIVATE KEY-----"
_ENCRYPTED: Final = ("-----BEGIN ENCRYPTED PRIVATE KEY-----", "Proc-Type: 4,ENCRYPTED")


class PemFiles(NamedTuple):
    """The sources of trust and identity; each is a path or the PEM text itself.

    Attributes:
        authorities: certificates of the trusted authorities; None for the system's certificates.
        certificate: this client's certificate chain, optionally with its private key; None to send no certificate.
        key: the private key, if it is not in the same place as the certificate.
        key_password: decrypts the private key.
        checks_hostname: whether the broker's certificate must match the host name to which the client connects.
        key_password_option: the option with that password, for errors.
    """

    authorities: str | None = None
    certificate: str | None = None
    key: Secret | None = None
    key_password: Secret | None = None
    checks_hostname: bool = True
    key_password_option: str = "ssl_key_password"


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
        _load_identity(context, pem.certificate, pem)
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


def _load_identity(context: ssl.SSLContext, certificate: str, pem: PemFiles) -> None:
    from tempfile import TemporaryDirectory  # only clients that send a certificate need it

    key_pem, password = None if pem.key is None else pem.key.reveal(), pem.key_password
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
            reason = _why_refused(error, certificate, key_pem, pem) if isinstance(error, ssl.SSLError) else error
            raise _unusable("ssl_keystore_location", certificate, reason) from error


def _why_refused(error: ssl.SSLError, certificate: str, key_pem: str | None, pem: PemFiles) -> str:
    """Return why OpenSSL refused a certificate and its key; it says `PEM lib` whatever the reason."""
    chain = _content(certificate)
    key = chain if key_pem is None else _content(key_pem)
    if _CERTIFICATE not in chain:
        return f"there is no certificate in PEM format in it ({error})"
    if _PRIVATE_KEY not in key:
        where = "there is a certificate in it, but no" if key_pem is None else "its key is no"
        return f"{where} private key in PEM format"
    if any(mark in key for mark in _ENCRYPTED):
        if pem.key_password is None:
            return f"its private key is encrypted, and {pem.key_password_option} is not given"
        return f"{pem.key_password_option} does not decrypt its private key"
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"the private key does not belong to the certificate ({error})"
    return str(error)


def _content(pem: str) -> str:
    if _is_text(pem):
        return pem
    try:
        with open(pem, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""  # it has been read before, and was removed meanwhile


def _is_text(pem: str) -> bool:
    return "-----BEGIN" in pem


def _as_file(pem: str, path: str) -> str:
    if not _is_text(pem):
        return pem
    with open(path, "w", encoding="utf-8") as file:
        file.write(pem)
    return path


def _unusable(option: str, pem: str, error: Exception | str) -> ConfigurationError:
    return ConfigurationError(option, "PEM text" if _is_text(pem) else pem, f"cannot be used: {error}")
