"""Public keys that verify the signatures of tokens, read from a JSON Web Key Set.

This module needs `cryptography` (the extra `jwt`), which is imported when the first key is read. Keys that cannot be
used are skipped, as Kafka's library does; a key for HMAC is one of them, because a key that verifies must not sign.

Source: RFC 7515, RFC 7517, RFC 7518, RFC 8037; `JsonWebKeySet` and `VerificationJwkSelector` of jose4j, which Apache
Kafka uses.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from kafkawire.reference_broker.security.sasl.compact_tokens import MalformedToken, from_base64url

__all__ = ["DOCUMENT_BYTES_MAX", "KEYS_MAX", "VerificationKey", "read_key_set", "select_key"]

#: The maximum size of a set: an issuer publishes a few keys of 1 KiB each, sometimes with certificates.
DOCUMENT_BYTES_MAX: Final = 1024 * 1024

#: The maximum number of keys in a set, all of which may have to be searched for a token.
KEYS_MAX: Final = 100

#: The smallest RSA key that jose4j accepts.
_RSA_BITS_MIN: Final = 2048

#: The maximum size of an RSA key; each doubling quadruples the time for a token, which is 0.2 ms for this size.
_RSA_BITS_MAX: Final = 16_384


class _Verify(Protocol):
    """Checks a signature of data, and raises a `ValueError` if it does not match."""

    def __call__(self, algorithm: str, signature: bytes, data: bytes) -> None: ...


class VerificationKey(NamedTuple):
    """A public key.

    Attributes:
        key_id: its id; None if it has none.
        key_type: RSA, EC or OKP.
        algorithm: the algorithm that it is meant for; None if for any.
        curve: the name of its curve; None for RSA.
        verify: checks a signature.
    """

    key_id: str | None
    key_type: str
    algorithm: str | None
    curve: str | None
    verify: _Verify


class _Algorithm(NamedTuple):
    """A signature algorithm.

    Attributes:
        key_type: the type of its keys.
        hash_name: the name of its hash in `cryptography`; empty for EdDSA.
        curve: the only curve of its keys; None for RSA and EdDSA.
        is_pss: whether it pads with PSS.
    """

    key_type: str
    hash_name: str = ""
    curve: str | None = None
    is_pss: bool = False


#: The algorithms with public keys that jose4j knows, except ES256K, which its default build of Java lacks.
_ALGORITHMS: Final[Mapping[str, _Algorithm]] = {
    **{f"RS{bits}": _Algorithm("RSA", f"SHA{bits}") for bits in (256, 384, 512)},
    **{f"PS{bits}": _Algorithm("RSA", f"SHA{bits}", is_pss=True) for bits in (256, 384, 512)},
    "ES256": _Algorithm("EC", "SHA256", "P-256"),
    "ES384": _Algorithm("EC", "SHA384", "P-384"),
    "ES512": _Algorithm("EC", "SHA512", "P-521"),
    "EdDSA": _Algorithm("OKP"),
}

_CURVES: Final = {"P-256": "SECP256R1", "P-384": "SECP384R1", "P-521": "SECP521R1"}
_EDWARDS_CURVES: Final = {"Ed25519": "Ed25519PublicKey", "Ed448": "Ed448PublicKey"}


def read_key_set(document: bytes) -> tuple[VerificationKey, ...]:
    """Return the usable keys of a JSON Web Key Set.

    Raises:
        ValueError: the document is too large, or is not a set.
        ImportError: `cryptography` is not installed.
    """
    if len(document) > DOCUMENT_BYTES_MAX:
        raise ValueError(f"the document has more than {DOCUMENT_BYTES_MAX} bytes, the limit for a set of keys")
    try:
        found = json.loads(document)
    except (ValueError, RecursionError):
        raise ValueError("the document is not JSON") from None
    keys = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(keys, list):
        raise ValueError("the document is not a set of keys: it has no list named keys")
    if len(keys) > KEYS_MAX:
        raise ValueError(f"the document has {len(keys)} keys, but at most {KEYS_MAX} are allowed")
    return tuple(key for each in keys if (key := _key(each)) is not None)


def select_key(keys: Iterable[VerificationKey], algorithm: str, key_id: str | None) -> VerificationKey | None:
    """Return the key that verifies a token, or None, as jose4j selects it.

    Args:
        keys: the candidates.
        algorithm: the algorithm that the token names.
        key_id: the id that the token names; None if it names none.
    """
    known = _ALGORITHMS.get(algorithm)
    if known is None:
        return None
    found = [key for key in keys if key.key_type == known.key_type and key_id in (None, key.key_id)]
    if len(found) > 1:
        found = [key for key in found if key.algorithm in (None, algorithm)]
    if len(found) > 1 and known.curve is not None:
        found = [key for key in found if key.curve == known.curve]
    return found[0] if found else None


def _key(jwk: object) -> VerificationKey | None:
    """Return a key; None if it cannot be used."""
    if not isinstance(jwk, dict) or jwk.get("use", "sig") != "sig":
        return None
    key_type, make = jwk.get("kty"), _MAKERS.get(str(jwk.get("kty")))
    texts = [jwk.get(name) for name in ("kid", "alg", "crv")]
    if make is None or not isinstance(key_type, str) or not all(isinstance(text, str | None) for text in texts):
        return None
    try:
        verify = make(jwk)
    except (KeyError, ValueError, TypeError, OverflowError):
        return None
    key_id, algorithm, curve = texts
    return VerificationKey(key_id, key_type, algorithm, None if key_type == "RSA" else curve, verify)


def _rsa(jwk: Mapping[str, Any]) -> _Verify:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding, rsa

    modulus, exponent = _number(jwk["n"]), _number(jwk["e"])
    if not _RSA_BITS_MIN <= modulus.bit_length() <= _RSA_BITS_MAX:
        raise ValueError("the key is too short or too long")
    key = rsa.RSAPublicNumbers(exponent, modulus).public_key()

    def verify(algorithm: str, signature: bytes, data: bytes) -> None:
        known = _checked(algorithm, "RSA")
        digest = getattr(hashes, known.hash_name)()
        pad = padding.PSS(padding.MGF1(digest), digest.digest_size) if known.is_pss else padding.PKCS1v15()
        try:
            key.verify(signature, data, pad, digest)
        except InvalidSignature:
            raise ValueError("the signature does not match") from None

    return verify


def _elliptic(jwk: Mapping[str, Any]) -> _Verify:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    curve = getattr(ec, _CURVES[jwk["crv"]])()
    key = ec.EllipticCurvePublicNumbers(_number(jwk["x"]), _number(jwk["y"]), curve).public_key()
    size_bytes = (curve.key_size + 7) // 8

    def verify(algorithm: str, signature: bytes, data: bytes) -> None:
        known = _checked(algorithm, "EC")
        if known.curve != jwk["crv"] or len(signature) != 2 * size_bytes:
            raise ValueError("the signature is not of this key's curve")
        r, s = (int.from_bytes(half, "big") for half in (signature[:size_bytes], signature[size_bytes:]))
        try:
            key.verify(encode_dss_signature(r, s), data, ec.ECDSA(getattr(hashes, known.hash_name)()))
        except InvalidSignature:
            raise ValueError("the signature does not match") from None

    return verify


def _edwards(jwk: Mapping[str, Any]) -> _Verify:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric import ed448, ed25519

    name = _EDWARDS_CURVES[jwk["crv"]]
    key = getattr(ed448 if name.startswith("Ed448") else ed25519, name).from_public_bytes(from_base64url(jwk["x"]))

    def verify(algorithm: str, signature: bytes, data: bytes) -> None:
        _checked(algorithm, "OKP")
        try:
            key.verify(signature, data)
        except InvalidSignature:
            raise ValueError("the signature does not match") from None

    return verify


_MAKERS: Final[Mapping[str, Callable[[Mapping[str, Any]], _Verify]]] = {"RSA": _rsa, "EC": _elliptic, "OKP": _edwards}


def _checked(algorithm: str, key_type: str) -> _Algorithm:
    """Return an algorithm of a type of keys; a key must not be used with an algorithm of another type."""
    known = _ALGORITHMS.get(algorithm)
    if known is None or known.key_type != key_type:
        raise ValueError(f"a key of the type {key_type} does not verify the algorithm")
    return known


def _number(text: object) -> int:
    if not isinstance(text, str):
        raise MalformedToken("a number of a key is not text")
    return int.from_bytes(from_base64url(text), "big")
