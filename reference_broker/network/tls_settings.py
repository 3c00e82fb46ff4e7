"""The TLS context of a listener: for its clients, or for connections to other brokers' listener of that name.

It follows the files: when one of them changes, later connections get a new context. A file that cannot be used is
reported, and the former context stays.

Source: `DefaultSslEngineFactory`, `SslFactory` in Apache Kafka.
"""

from __future__ import annotations

import logging
import os
import re
import ssl
from collections.abc import Iterable
from typing import Final

from kafkawire.reference_broker.config.endpoints import Listener
from kafkawire.reference_broker.config.security_options import ListenerSecurityOptions
from kafkawire.reference_broker.config.security_settings import SecuritySettings
from kafkawire.reference_broker.security.distinguished_names import alternative_names_of, subject_of
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.registry.key_stores import KeyStore, pem_of
from kafkawire.sdk.secret import Secret
from kafkawire.sdk.transport.tls import PemFiles, tls_context

__all__ = ["CHECK_MS", "ListenerTls"]

_log = logging.getLogger("kafkawire.broker")

#: The minimum time between two checks of the files for changes: certificates are replaced weeks before they expire.
CHECK_MS: Final = 5_000

#: The first byte of every PKCS12 file. Java's type JKS stands for either format.
_DER_SEQUENCE: Final = b"\x30"

_VERIFY: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}

#: Parts of the standard names of cipher suites, and OpenSSL's names of these parts.
_SUITE: Final = re.compile(r"TLS_((?:ECDHE|DHE)_(?:RSA|ECDSA)|RSA)_WITH_(.+)")
_CIPHER_PARTS: Final = (("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"), ("_CBC_", "_"), ("AES_", "AES"), ("_", "-"))

#: The cipher suites of TLS 1.3, which Python cannot restrict.
_SUITES_13: Final = frozenset({"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"})

#: Occurs in any text in PEM, and in no path.
_PEM: Final = "-----BEGIN"

#: The lines around a certificate in PEM.
_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_END: Final = "-----END CERTIFICATE-----"

#: A file as it was when it was read: its time of change in ns, size and inode; None if there was none.
_Stamp = tuple[int, int, int] | None


class ListenerTls:
    """The TLS of one listener.

    Args:
        listener: the listener.
        settings: the settings of all listeners.
        is_server: whether the context is for the listener's clients, rather than for connections to other brokers.

    Raises:
        ConfigurationError: the certificate or another setting cannot be used; the error names the listener.
    """

    def __init__(self, listener: Listener, settings: SecuritySettings, *, is_server: bool = True) -> None:
        self._listener = listener
        self._is_server = is_server
        self._settings = settings
        self._options: ListenerSecurityOptions = settings.of(listener.name)
        self._lines = LogLimit(_log)
        self._files = tuple(
            each
            for each in (self._options.ssl_keystore_location, self._options.ssl_truststore_location)
            if each is not None
        )
        #: The broker's certificate in DER; empty if it has none.
        self._certificate = b""
        self._checked_ms: int | None = None
        self._stamps = _stamps(self._files)
        self._context = self._new_context()

    def check_change(self, new: ListenerTls) -> None:
        """Check that other settings may take the place of these while the broker runs.

        Raises:
            ConfigurationError: they may not; the reason is Kafka's.
        """
        options = self._options
        has_trust, gets_trust = (_has_trust_store(each._options) for each in (self, new))
        if gets_trust and not has_trust:
            reason = "Cannot add SSL truststore to an existing listener for which no truststore was configured."
            raise ConfigurationError("ssl.truststore.location", new._options.ssl_truststore_location, reason)
        before, after = self._certificate, new._certificate
        if not options.ssl_allow_dn_changes and subject_of(before) != subject_of(after):
            reason = (
                "Keystore DistinguishedName does not match:  "
                f"existing={{alias=kafka, DN={subject_of(before)}}}, new={{alias=kafka, DN={subject_of(after)}}}"
            )
            raise ConfigurationError("ssl.keystore.location", new._options.ssl_keystore_location, reason)
        if not options.ssl_allow_san_changes and not alternative_names_of(before) <= alternative_names_of(after):
            reason = "Keystore SubjectAltNames do not match: the new certificate lacks names of the existing one"
            raise ConfigurationError("ssl.keystore.location", new._options.ssl_keystore_location, reason)

    def context(self, now_ms: int) -> ssl.SSLContext:
        """Return the context for a new connection.

        Args:
            now_ms: the time in milliseconds.
        """
        if self._checked_ms is None or not 0 <= now_ms - self._checked_ms < CHECK_MS:
            self._checked_ms = now_ms
            self._follow_files(now_ms)
        return self._context

    def _follow_files(self, now_ms: int) -> None:
        stamps = _stamps(self._files)
        if stamps == self._stamps:
            return
        self._stamps = stamps
        try:
            self._context = self._new_context()
        except ConfigurationError as error:
            self._lines.error("files", now_ms, "the new certificates are not used, the former ones stay: %s", error)
        else:
            self._lines.info("reloaded", now_ms, "read the certificates of listener %s again", self._listener.name)

    def _new_context(self) -> ssl.SSLContext:
        context = self._restricted(self._loaded())
        if not self._is_server:
            return context
        context.verify_mode = _VERIFY[self._options.ssl_client_auth]
        if context.verify_mode != ssl.CERT_NONE and not context.cert_store_stats()["x509_ca"]:
            context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
        return context

    def _loaded(self) -> ssl.SSLContext:
        options = self._options
        own, password = self._own_pem()
        trusted = self._trusted_pem()
        key = None if own is None else options.ssl_keystore_key
        checks_hostname = options.ssl_endpoint_identification_algorithm == "https"
        try:
            pem = PemFiles(trusted, own, key, password, checks_hostname, "ssl.key.password")
            context = tls_context(pem, is_server=self._is_server)
            self._certificate = b"" if own is None else _first_certificate(own)
        except ConfigurationError as error:
            is_trust = error.option == "ssl_truststore_location"
            store = "truststore" if is_trust else "keystore"
            texts = ("truststore.certificates",) if is_trust else ("keystore.certificate.chain",)
            raise self._unusable(error.reason, *(f"ssl.{name}" for name in (*texts, f"{store}.location"))) from None
        return context

    def _own_pem(self) -> tuple[str | None, Secret | None]:
        """Return the broker's certificate as PEM, and the password of its key."""
        options = self._options
        chain, key = options.ssl_keystore_certificate_chain, options.ssl_keystore_key
        if chain is not None or key is not None:
            if chain is None or key is None:
                missing = "ssl.keystore.certificate.chain" if chain is None else "ssl.keystore.key"
                raise self._unusable("is needed, too", missing)
            self._check_text("keystore", options.ssl_keystore_type, options.ssl_keystore_location)
            self._check_pem("ssl.keystore.certificate.chain", chain)
            self._check_pem("ssl.keystore.key", key)
            return chain.reveal(), options.ssl_key_password
        if options.ssl_keystore_location is None:
            if self._is_server:
                raise self._unusable("a certificate is needed for TLS", "ssl.keystore.location")
            return None, None
        kind, password = options.ssl_keystore_type.upper(), options.ssl_keystore_password
        pem = self._pem("keystore", options.ssl_keystore_location, kind, password)
        # A converted key has the password of the store.
        return pem, options.ssl_key_password if kind == "PEM" else password

    def _trusted_pem(self) -> str | None:
        options = self._options
        if options.ssl_truststore_certificates is not None:
            self._check_text("truststore", options.ssl_truststore_type, options.ssl_truststore_location)
            self._check_pem("ssl.truststore.certificates", options.ssl_truststore_certificates)
            return options.ssl_truststore_certificates.reveal()
        location = options.ssl_truststore_location
        if location is None:
            return None
        kind = options.ssl_truststore_type.upper()
        return self._pem("truststore", location, kind, options.ssl_truststore_password)

    def _check_text(self, store: str, kind: str, location: str | None) -> None:
        """Check the options beside a certificate that is given as text."""
        if kind.upper() != "PEM":
            raise self._unusable("expected PEM, because the certificates are given as text", f"ssl.{store}.type")
        if location is not None:
            raise self._unusable("cannot be combined with certificates as text", f"ssl.{store}.location")

    def _check_pem(self, name: str, text: Secret) -> None:
        """Check that text is PEM: any other text would be read as the path of a file."""
        if _PEM not in text.reveal():
            raise self._unusable("expected text in PEM", name)

    def _pem(self, store: str, location: str, kind: str, password: Secret | None) -> str | None:
        if kind == "JKS":
            kind = "PKCS12" if _begins_with(location, _DER_SEQUENCE) else kind
        if kind not in ("PEM", "PKCS12", "JKS"):
            raise self._unusable(f"expected PEM, PKCS12 or JKS, got {kind}", f"ssl.{store}.type")
        try:
            return pem_of(KeyStore(f"ssl.{store}.location", location, kind, password))
        except ConfigurationError as error:
            raise self._unusable(error.reason, f"ssl.{store}.location") from None

    def _restricted(self, context: ssl.SSLContext) -> ssl.SSLContext:
        """Return the context with its versions and cipher suites."""
        versions = self._options.tls_versions
        if not versions:
            raise self._unusable("at least one version is needed", "ssl.enabled.protocols")
        context.minimum_version = _version(min(versions))
        context.maximum_version = _version(max(versions))
        suites = self._options.cipher_suites
        if suites:
            self._check_suites(suites, versions)
            older = [_openssl_name(each) for each in suites if each not in _SUITES_13]
            try:
                if older:
                    context.set_ciphers(":".join(older))
                else:
                    context.minimum_version = ssl.TLSVersion.TLSv1_3
            except (ssl.SSLError, ValueError) as error:
                raise self._unusable(f"OpenSSL cannot use these suites: {error}", "ssl.cipher.suites") from None
        return context

    def _check_suites(self, suites: Iterable[str], versions: Iterable[str]) -> None:
        missing = _SUITES_13 - {*suites}
        if "TLSv1.3" not in versions and not {*suites} - _SUITES_13:
            raise self._unusable("no suite belongs to a version in ssl.enabled.protocols", "ssl.cipher.suites")
        if "TLSv1.3" in versions and missing:
            reason = (
                f"the suites of TLS 1.3 cannot be restricted, so {', '.join(sorted(missing))} would be accepted, too; "
                "add them, or set ssl.enabled.protocols=TLSv1.2"
            )
            raise self._unusable(reason, "ssl.cipher.suites")

    def _unusable(self, reason: str, *names: str) -> ConfigurationError:
        full_name = self._settings.full_name(self._listener.name, *names)
        value = getattr(self._options, ListenerSecurityOptions.KAFKA_NAMES[names[-1]])
        return ConfigurationError(full_name, value, f"listener {self._listener.name}: {reason}")


def _version(name: str) -> ssl.TLSVersion:
    return ssl.TLSVersion[name.replace(".", "_")]


def _openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a cipher suite of TLS 1.2."""
    found = _SUITE.fullmatch(suite)
    if found is None:
        return suite
    exchange = "" if found[1] == "RSA" else found[1].replace("_", "-") + "-"
    cipher = found[2]
    for standard, own in _CIPHER_PARTS:
        cipher = cipher.replace(standard, own)
    return exchange + cipher


def _has_trust_store(options: ListenerSecurityOptions) -> bool:
    return options.ssl_truststore_location is not None or options.ssl_truststore_certificates is not None


def _first_certificate(pem: str) -> bytes:
    """Return the first certificate in a PEM file or text, in DER."""
    if _BEGIN not in pem:
        with open(pem, encoding="utf-8", errors="replace") as file:
            pem = file.read()
    return ssl.PEM_cert_to_DER_cert(pem[pem.index(_BEGIN) : pem.index(_END) + len(_END)])


def _begins_with(location: str, start: bytes) -> bool:
    try:
        with open(location, "rb") as file:
            return file.read(len(start)) == start
    except OSError:
        return False  # the error is reported when the whole file is read


def _stamps(files: Iterable[str]) -> tuple[_Stamp, ...]:
    return tuple(map(_stamp, files))


def _stamp(file: str) -> _Stamp:
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
