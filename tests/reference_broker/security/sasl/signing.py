"""Keys that sign tokens, and their public halves as a JSON Web Key Set, made with `cryptography`."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from functools import cache
from typing import Any, ClassVar

__all__ = ["SigningKeys", "signing_keys"]


def _url64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _number(value: int, size_bytes: int = 0) -> str:
    return _url64(value.to_bytes(size_bytes or (value.bit_length() + 7) // 8, "big"))


class SigningKeys:
    """Fresh keys of every type.

    Attributes:
        public: the JSON Web Key Set with the public halves; `stranger` is not in it.
    """

    #: The algorithms that tokens are signed with, keyed by key id.
    ALGORITHMS: ClassVar = {
        "rsa": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
        "p256": ("ES256",),
        "p384": ("ES384",),
        "p521": ("ES512",),
        "ed25519": ("EdDSA",),
    }

    def __init__(self) -> None:
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

        self._private: dict[str, Any] = {
            "rsa": rsa.generate_private_key(65537, 2048),
            "rsa-other": rsa.generate_private_key(65537, 2048),
            "rsa-1024": rsa.generate_private_key(65537, 1024),
            "p256": ec.generate_private_key(ec.SECP256R1()),
            "p384": ec.generate_private_key(ec.SECP384R1()),
            "p521": ec.generate_private_key(ec.SECP521R1()),
            "ed25519": ed25519.Ed25519PrivateKey.generate(),
        }
        self._private["rsa-encryption"] = self._private["rsa-256"] = self._private["rsa-other"]
        added = {"rsa-encryption": {"use": "enc"}, "rsa-256": {"use": "sig", "alg": "RS256"}}
        keys = [self._jwk(name) | added.get(name, {}) for name in self._private]
        self.public = json.dumps(
            {"keys": [*keys, {"kty": "unknown", "kid": "other type"}, {"kid": "no type"}]}
        ).encode()

    def sign(self, key: str, algorithm: str, header: object, claims: object) -> str:
        """Return a token in compact form."""
        signed = f"{_url64(json.dumps(header).encode())}.{_url64(json.dumps(claims).encode())}"
        return f"{signed}.{_url64(self._signature(key, algorithm, signed.encode()))}"

    def _signature(self, key: str, algorithm: str, data: bytes) -> bytes:
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, padding
        from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        private = self._private[key]
        if algorithm == "EdDSA":
            return bytes(private.sign(data))
        digest = {"256": hashes.SHA256, "384": hashes.SHA384, "512": hashes.SHA512}[algorithm[2:]]()
        if algorithm.startswith("HS"):
            public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
            return hmac.new(public, data, hashlib.sha256).digest()
        if algorithm.startswith("ES"):
            size = (private.curve.key_size + 7) // 8
            r, s = decode_dss_signature(private.sign(data, ec.ECDSA(digest)))
            return r.to_bytes(size, "big") + s.to_bytes(size, "big")
        pad = padding.PKCS1v15() if algorithm[0] == "R" else padding.PSS(padding.MGF1(digest), digest.digest_size)
        return bytes(private.sign(data, pad, digest))

    def _jwk(self, name: str) -> dict[str, object]:
        public = self._private[name].public_key()
        if name.startswith("rsa"):
            numbers = public.public_numbers()
            return {"kty": "RSA", "kid": name, "n": _number(numbers.n), "e": _number(numbers.e)}
        if name == "ed25519":
            return {"kty": "OKP", "kid": name, "crv": "Ed25519", "x": _url64(public.public_bytes_raw())}
        numbers, size = public.public_numbers(), (public.curve.key_size + 7) // 8
        curve = f"P-{public.curve.key_size}"
        return {"kty": "EC", "kid": name, "crv": curve, "x": _number(numbers.x, size), "y": _number(numbers.y, size)}


@cache
def signing_keys() -> SigningKeys:
    """Return the keys of this process."""
    return SigningKeys()
