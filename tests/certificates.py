"""Fresh certificates for tests, made with the `openssl` program, for two authorities, brokers and a client.

Every file is PEM; private keys are PKCS #8, as Apache Kafka requires.
"""

from __future__ import annotations

import ssl
import subprocess
from enum import Enum
from pathlib import Path

__all__ = ["KEY_PASSWORD", "Certificates", "Key"]

#: The password of `client_locked.key`.
KEY_PASSWORD = "the key's own password"

_DAYS = "2"


class Key(Enum):
    """The kind of the private keys."""

    ECDSA = "ECDSA P-256"
    RSA = "RSA 2048"


_NEW_KEY = {
    Key.ECDSA: ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
    Key.RSA: ("-newkey", "rsa:2048", "-nodes"),
}


class Certificates:
    """The certificate and key files in a folder.

    Args:
        folder: an empty folder.
        key: the kind of all keys.

    Attributes:
        authority: the authority that signs every certificate except `stranger`.
        broker: certificate and private key of a broker named localhost, in one file.
        elsewhere: the same for a broker named elsewhere.example.
        stranger: the same for a broker named localhost, signed by another authority.
        client: certificate and private key of a client whose common name is "client".
        client_certificate, client_key: the client's certificate and key in separate files.
        client_locked_key: the client's key, protected with `KEY_PASSWORD`.
    """

    def __init__(self, folder: Path, key: Key = Key.ECDSA) -> None:
        self._folder = folder
        self._new_key = _NEW_KEY[key]
        self.authority = self._authority("authority")
        self._authority("other")
        self.broker = self._issued("broker", "DNS:localhost")
        self.elsewhere = self._issued("elsewhere", "DNS:elsewhere.example")
        self.stranger = self._issued("stranger", "DNS:localhost", authority="other")
        self.client = self._issued("client", "DNS:client")
        self.client_certificate, self.client_key = folder / "client.crt", folder / "client.key"
        self.client_locked_key = folder / "client_locked.key"
        self._openssl(
            "pkcs8", "-topk8", "-in", "client.key", "-out", "client_locked.key", "-passout", f"pass:{KEY_PASSWORD}"
        )

    def context(self, identity: Path, *, wants_client: bool = False) -> ssl.SSLContext:
        """Return the SSL context of a broker."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(identity)
        if wants_client:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.authority)
        return context

    def _authority(self, name: str) -> Path:
        usage = "keyUsage=critical,keyCertSign,cRLSign"
        subject = f"/CN=kafkawire test {name}"
        self._openssl(
            *("req", "-x509", *self._new_key, "-keyout", f"{name}.key", "-out", f"{name}.crt"),
            *("-days", _DAYS, "-subj", subject, "-addext", usage),
        )
        return self._folder / f"{name}.crt"

    def _issued(self, name: str, names: str, authority: str = "authority") -> Path:
        self._openssl("req", *self._new_key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        extensions = self._folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={names}\n")
        signer = ("-CA", f"{authority}.crt", "-CAkey", f"{authority}.key", "-CAcreateserial")
        request = ("-req", "-in", f"{name}.csr", "-out", f"{name}.crt", "-extfile", extensions.name)
        self._openssl("x509", *request, *signer, "-days", _DAYS)
        both = self._folder / f"{name}.pem"
        both.write_text((self._folder / f"{name}.key").read_text() + (self._folder / f"{name}.crt").read_text())
        return both

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self._folder, check=True, capture_output=True)
