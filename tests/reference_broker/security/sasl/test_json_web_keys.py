"""Keys verify the signatures of their own type only, and unusable keys are skipped.

Method: sign with fresh keys of every type and algorithm, and verify with each key; read sets with damaged keys.
"""

from __future__ import annotations

import json

import pytest

from kafkawire.reference_broker.security.sasl.compact_tokens import from_base64url
from kafkawire.reference_broker.security.sasl.json_web_keys import (
    DOCUMENT_BYTES_MAX,
    KEYS_MAX,
    VerificationKey,
    read_key_set,
    select_key,
)
from tests.reference_broker.security.sasl.signing import SigningKeys, signing_keys

pytest.importorskip("cryptography")

USABLE = ["rsa", "rsa-other", "p256", "p384", "p521", "ed25519", "rsa-256"]

SIGNATURES = [(key, algorithm) for key, algorithms in SigningKeys.ALGORITHMS.items() for algorithm in algorithms]


def keys() -> dict[str | None, VerificationKey]:
    return {key.key_id: key for key in read_key_set(signing_keys().public)}


def signed(key: str, algorithm: str) -> tuple[bytes, bytes]:
    """Return a signature and what it signs."""
    token = signing_keys().sign(key, algorithm, {"alg": algorithm}, {})
    data, _, signature = token.rpartition(".")
    return from_base64url(signature), data.encode()


def test_usable_keys() -> None:
    """Left out: a short key, one for encryption, and keys of unknown types."""
    assert sorted(map(str, keys())) == sorted(USABLE)
    assert keys()["rsa-256"].algorithm == "RS256"
    assert [keys()[each].curve for each in ("rsa", "p256", "ed25519")] == [None, "P-256", "Ed25519"]


@pytest.mark.parametrize(("key", "algorithm"), SIGNATURES)
def test_only_the_right_key_and_algorithm(key: str, algorithm: str) -> None:
    signature, data = signed(key, algorithm)
    for key_id, candidate in keys().items():
        for other in (*(name for _, name in SIGNATURES), "none", "HS256", "XX256"):
            if (key_id, other) == (key, algorithm):
                candidate.verify(other, signature, data)
                continue
            with pytest.raises(ValueError, match=r"signature|does not verify"):
                candidate.verify(other, signature, data)


@pytest.mark.parametrize(("key", "algorithm"), SIGNATURES)
def test_damaged_signatures(key: str, algorithm: str) -> None:
    signature, data = signed(key, algorithm)
    changed = [b"", signature[:-1], signature + b"\0", bytes(len(signature)), b"\xff" * len(signature)]
    for each in (*changed, *(signature[:at] + bytes([signature[at] ^ 1]) + signature[at + 1 :] for at in (0, 40, -1))):
        if each != signature:
            with pytest.raises(ValueError, match="signature"):
                keys()[key].verify(algorithm, each[: len(signature) + 1], data)
    with pytest.raises(ValueError, match="signature"):
        keys()[key].verify(algorithm, signature, data + b"x")


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"n": ""}, "rsa"),
        ({"n": None}, "rsa"),
        ({"n": "!"}, "rsa"),
        ({"n": "_" * 4000}, "rsa"),
        ({"e": "AA"}, "rsa"),
        ({"e": 65537}, "rsa"),
        ({"kid": 5}, "rsa"),
        ({"alg": []}, "rsa"),
        ({"kty": "oct"}, "rsa"),
        ({"kty": None}, "rsa"),
        ({"use": None}, "rsa"),
        ({"crv": "P-999"}, "p256"),
        ({"crv": None}, "p256"),
        ({"x": "AAAA"}, "p256"),
        ({"y": "_" * 400}, "p256"),
        ({"crv": "X25519"}, "ed25519"),
        ({"x": "AAAA"}, "ed25519"),
    ],
)
def test_keys_that_cannot_be_used_are_skipped(change: dict[str, object], key: str) -> None:
    (found,) = (each for each in json.loads(signing_keys().public)["keys"] if each.get("kid") == key)
    other = {**found, "kid": "whole"}
    for damaged in (found | change, {name: value for name, value in found.items() if name not in change}):
        if damaged != found and (damaged.keys() >= found.keys() or "kid" not in change):
            keys = read_key_set(json.dumps({"keys": [damaged, other, "text", 5, None]}).encode())
            assert [each.key_id for each in keys] == ["whole"]


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b"", "is not JSON"),
        (b"<html>", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"\xff", "is not JSON"),
        (b"[]", "no list named keys"),
        (b"{}", "no list named keys"),
        (b'{"keys": {}}', "no list named keys"),
        (json.dumps({"keys": [{}] * (KEYS_MAX + 1)}).encode(), f"has {KEYS_MAX + 1} keys, but at most {KEYS_MAX}"),
        (b" " * (DOCUMENT_BYTES_MAX + 1), f"more than {DOCUMENT_BYTES_MAX} bytes"),
    ],
)
def test_documents_that_are_refused(document: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_key_set(document)


def test_selection() -> None:
    def key(name: str | None, kind: str, algorithm: str | None = None, curve: str | None = None) -> VerificationKey:
        return VerificationKey(name, kind, algorithm, curve, lambda algorithm, signature, data: None)

    one, two = key("1", "RSA", "RS512"), key("2", "RSA")
    small, large, nameless = key("3", "EC", None, "P-256"), key("4", "EC", None, "P-384"), key(None, "OKP")
    everything = (one, two, small, large, nameless)
    assert select_key(everything, "RS256", "1") is one  # the only candidate need not be meant for the algorithm
    assert select_key(everything, "RS256", None) is two
    assert select_key(everything, "RS512", None) is one
    assert select_key(everything, "ES384", None) is large
    assert select_key(everything, "ES256", "4") is large  # which then does not verify the signature
    assert select_key(everything, "EdDSA", None) is nameless
    assert select_key(everything, "EdDSA", "5") is None
    assert select_key(everything, "RS256", "3") is None
    assert select_key(everything, "none", None) is None
    assert select_key((), "RS256", None) is None
