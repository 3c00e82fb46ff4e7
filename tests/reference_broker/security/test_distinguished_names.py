"""The name of a certificate's owner is written as Java writes it, and damaged certificates are refused.

Method: certificates made by OpenSSL; the expected names are those that `X500Principal.getName` of OpenJDK 17 returned
for certificates with the same subjects. Damage is a cut at every byte, and every byte changed.
"""

from __future__ import annotations

import ssl
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from kafkawire.reference_broker.security.distinguished_names import alternative_names_of, subject_of
from tests.needs import OPENSSL

pytestmark = OPENSSL.mark


def certificate(folder: Path, subject: str, *options: str) -> bytes:
    """Return a certificate with a subject, in DER."""
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "key")
    command = ["openssl", "req", "-x509", *key, "-out", "crt", "-days", "2", "-utf8", "-subj", subject, *options]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return ssl.PEM_cert_to_DER_cert((folder / "crt").read_text())


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ("/CN=client", "CN=client"),
        ("/C=DE/ST=Bayern/L=München/O=Example, Inc./OU=a", "OU=a,O=Example\\, Inc.,L=München,ST=Bayern,C=DE"),
        ('/DC=org/DC=example/UID=bob/CN=Bob <b>;"x"#=y', 'CN=Bob \\<b\\>\\;\\"x\\"\\#\\=y,UID=bob,DC=example,DC=org'),
        (
            "/CN= lead and trail /emailAddress=a@b.c/serialNumber=17",
            "2.5.4.5=#13023137,1.2.840.113549.1.9.1=#16056140622e63,CN=\\ lead and trail\\ ",
        ),
        ("/CN=#hash\\\\back/O=ünï/street=Main 1/title=Dr", "2.5.4.12=#0c024472,STREET=Main 1,O=ünï,CN=\\#hash\\\\back"),
        ("/GN=given/SN=sur/CN=日本", "CN=日本,2.5.4.4=#0c03737572,2.5.4.42=#0c05676976656e"),
    ],
)
def test_names(tmp_path: Path, subject: str, expected: str) -> None:
    assert subject_of(certificate(tmp_path, subject)) == expected


def test_names_with_several_values(tmp_path: Path) -> None:
    assert subject_of(certificate(tmp_path, "/CN=multi+OU=two/O=x", "-multivalue-rdn")) == "O=x,OU=two+CN=multi"


def test_alternative_names(tmp_path: Path) -> None:
    named = certificate(tmp_path, "/CN=x", "-addext", "subjectAltName=critical,DNS:a.example,IP:10.0.0.1")
    assert alternative_names_of(named) == {b"\x82\x09a.example", b"\x87\x04\x0a\0\0\x01"}
    assert alternative_names_of(certificate(tmp_path, "/CN=x")) == set()


def test_damage(tmp_path: Path) -> None:
    whole = certificate(tmp_path, "/C=DE/CN=client")
    damaged = [whole[:end] for end in range(len(whole))]
    for place in range(200):
        damaged += [whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :] for bit in (1, 0x80)]
    for each in damaged:
        for read in (subject_of, alternative_names_of):
            with suppress(ValueError):
                read(each)
