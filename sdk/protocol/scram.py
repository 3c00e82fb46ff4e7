"""SCRAM: a client proves that it knows a password, and a broker proves that it holds the credential for that password.

Four messages travel inside SaslAuthenticate; each side is a sans-I/O state machine that takes the peer's message and
returns its own. A broker stores no password, only a `ScramCredential`, which cannot be used to log in.

    client.first_message -> server.receive_first, first_message -> client.receive_first
                         -> server.receive_final -> client.receive_final

Source: RFC 5802, RFC 7677, KIP-48 (`tokenauth`); `ScramFormatter` and `ScramMessages` in Apache Kafka, which uses names
and passwords unchanged in UTF-8 (no SASLprep) and has no channel binding.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from kafkawire.sdk.errors import BrokerError, ConfigurationError, RemoteProtocolError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.secret import HIDDEN, Secret

__all__ = [
    "ITERATIONS_MAX",
    "ITERATIONS_MIN",
    "MESSAGE_BYTES_MAX",
    "SCRAM_MECHANISMS",
    "ClientFirst",
    "ProofSizeError",
    "ScramClient",
    "ScramCredential",
    "ScramServer",
    "credential_of",
    "make_credential",
    "salted_password",
    "sasl_name",
]

#: The names of the mechanisms and their hashes.
SCRAM_MECHANISMS: Mapping[str, str] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}

#: Fewer rounds would make guessing cheap; Kafka also refuses fewer.
ITERATIONS_MIN = 4096

#: The event loop is blocked while a client computes: for 60 ms with this many rounds of SHA-512. Kafka's brokers have
#: accepted at most 16,384 since 2.7 (`ScramMechanism`); earlier ones stored any number that an administrator chose.
ITERATIONS_MAX = 100_000

#: Nonces, salts and names are short; Kafka's brokers accept authentication messages of up to 512 KiB.
MESSAGE_BYTES_MAX = 64 * 1024

#: Maximum number of characters that an error quotes from a peer's reason.
_SHOWN_CHARACTERS = 100

#: The header of a client that uses neither channel binding nor another identity, and the same in base64.
_GS2_HEADER = "n,,"
_CHANNEL_BINDING = "biws"

_NONCE = r"[!-+.-~\-]+"
_VALUE = "[^\x00,]+"
_BASE64 = "[A-Za-z0-9+/]+={0,2}"
_EXTENSIONS = f"(?P<extensions>(?:,[A-Za-z]+={_VALUE})*)"

#: The grammar of a client's messages in Kafka's broker, which skips a reserved attribute (`m`) instead of refusing it.
_SASL_NAME = "(?:[^\x00,=]|=2C|=3D)+"
_PADDED_BASE64 = "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)?"

_CLIENT_FIRST = re.compile(
    f"n,(?:a=(?P<identity>{_SASL_NAME}))?,(?:m={_VALUE},)?"
    f"(?P<bare>n=(?P<name>{_SASL_NAME}),r=(?P<nonce>{_NONCE}){_EXTENSIONS})"
)
_SERVER_FIRST = re.compile(f"r=(?P<nonce>{_NONCE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,10}}){_EXTENSIONS}")
_CLIENT_FINAL = re.compile(
    f"(?P<bare>c=(?P<binding>{_PADDED_BASE64}),r=(?P<nonce>{_NONCE})){_EXTENSIONS},p=(?P<proof>{_PADDED_BASE64})"
)
_SERVER_FINAL = re.compile(f"(?:e=(?P<error>{_VALUE})|v=(?P<signature>{_BASE64})){_EXTENSIONS}")


class ScramCredential(NamedTuple):
    """The data that a broker stores instead of a password.

    Attributes:
        salt: random bytes, different for each user and mechanism.
        stored_key: the key that checks the client's proof.
        server_key: the key that creates the broker's proof.
        iterations: the number of hash rounds applied to the password.
    """

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential({HIDDEN})"


class ClientFirst(NamedTuple):
    """The identity in a client's first message.

    Attributes:
        user: name, or id of a delegation token.
        extensions: extensions of the client, such as `{"tokenauth": "true"}` for a delegation token.
        authorization_id: the user for whom the client wants to act, still with its escapes; empty for itself.
    """

    user: str
    extensions: dict[str, str]
    authorization_id: str = ""


class ProofSizeError(RemoteProtocolError):
    """A client's proof does not have the size of the hash."""


class ScramClient:
    """The client's side of one login.

    Args:
        mechanism: one of `SCRAM_MECHANISMS`.
        user: name, or id of a delegation token.
        password: the user's password.
        nonce: printable ASCII without commas, random and used once.
        extensions: names and values to add to the first message.
        iterations_min: the lowest number of rounds accepted.

    Raises:
        ConfigurationError: the mechanism is unknown, the user or password is empty, or the nonce is invalid.
    """

    def __init__(
        self,
        mechanism: str,
        user: str,
        password: str,
        nonce: str,
        extensions: Mapping[str, str] | None = None,
        iterations_min: int = ITERATIONS_MIN,
    ) -> None:
        self._hash = _hash(mechanism)
        if not user:
            raise ConfigurationError("user", user, "must not be empty")
        if not password:
            raise ConfigurationError("password", password, "must not be empty")
        self._mechanism = mechanism
        self._password = Secret(password)
        self._nonce = _checked_nonce(nonce)
        self._iterations_min = iterations_min
        added = "".join(f",{name}={value}" for name, value in (extensions or {}).items())
        self._bare = f"n={sasl_name(user)},r={nonce}{added}"
        self._signature = b""

    def first_message(self) -> bytes:
        """Return the message that opens the login."""
        return f"{_GS2_HEADER}{self._bare}".encode()

    def receive_first(self, data: bytes) -> bytes:
        """Process the broker's challenge and return the proof.

        Raises:
            RemoteProtocolError: the message is malformed, is addressed to another client, or asks for too few or too
                many rounds.
        """
        message, found = _read(_SERVER_FIRST, data, "first message of the broker")
        nonce, iterations = found["nonce"], int(found["iterations"])
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise RemoteProtocolError("SCRAM: the broker did not extend the client's nonce")
        if not self._iterations_min <= iterations <= ITERATIONS_MAX:
            raise RemoteProtocolError(
                f"SCRAM: the broker asks for {iterations} iterations, "
                f"but {self._iterations_min} to {ITERATIONS_MAX} are allowed"
            )
        salted = salted_password(self._mechanism, self._password.reveal(), _unbase64(found["salt"], "salt"), iterations)
        bare = f"c={_CHANNEL_BINDING},r={nonce}"
        signed = f"{self._bare},{message},{bare}".encode()
        client_key = _client_key(self._hash, salted)
        proof = _xor(client_key, _hmac(self._hash, _digest(self._hash, client_key), signed))
        self._signature = _hmac(self._hash, _server_key(self._hash, salted), signed)
        return f"{bare},p={_base64(proof)}".encode()

    def receive_final(self, data: bytes) -> None:
        """Process the broker's verdict.

        Raises:
            BrokerError: the login was refused.
            RemoteProtocolError: the message is malformed, or the broker does not know the password.
        """
        _, found = _read(_SERVER_FINAL, data, "final message of the broker")
        if found["error"] is not None:
            raise BrokerError(ErrorCode.SASL_AUTHENTICATION_FAILED, f"SCRAM: {found['error']:.{_SHOWN_CHARACTERS}}")
        # Before the challenge, the expected signature is empty, so no signature in a message matches it.
        if not hmac.compare_digest(_unbase64(found["signature"], "proof"), self._signature):
            raise RemoteProtocolError("SCRAM: the broker could not prove that it knows the user's password")


class ScramServer:
    """The broker's side of one login.

    Args:
        mechanism: one of `SCRAM_MECHANISMS`.
        nonce: printable ASCII without commas, random and used once; appended to the client's nonce.

    Raises:
        ConfigurationError: the mechanism is unknown, or the nonce is invalid.
    """

    def __init__(self, mechanism: str, nonce: str) -> None:
        self._hash = _hash(mechanism)
        self._nonce = _checked_nonce(nonce)
        self._client_bare = ""
        self._message = ""
        self._credential: ScramCredential | None = None

    def receive_first(self, data: bytes) -> ClientFirst:
        """Process the message that opens a login; return the client's identity, with which to look up the credential.

        Raises:
            RemoteProtocolError: the message is malformed.
        """
        _, found = _read(_CLIENT_FIRST, data, "first message of the client")
        self._client_bare = found["bare"]
        self._nonce = found["nonce"] + self._nonce
        pairs = (part.split("=", 1) for part in found["extensions"].split(",")[1:])
        user = found["name"].replace("=2C", ",").replace("=3D", "=")
        return ClientFirst(user, dict(pairs), found["identity"] or "")

    def first_message(self, credential: ScramCredential) -> bytes:
        """Return the challenge for a user with a credential."""
        self._credential = credential
        self._message = f"r={self._nonce},s={_base64(credential.salt)},i={credential.iterations}"
        return self._message.encode()

    def receive_final(self, data: bytes) -> bytes:
        """Check the client's proof and return the broker's.

        As in Kafka, the proof covers neither extensions nor a particular value of the channel binding.

        Raises:
            RemoteProtocolError: the message is malformed, or answers another challenge.
            ProofSizeError: the proof does not have the size of the hash.
            BrokerError: the proof is wrong.
        """
        _, found = _read(_CLIENT_FINAL, data, "final message of the client")
        if self._credential is None or found["nonce"] != self._nonce:
            raise RemoteProtocolError("SCRAM: the client answered another challenge")
        signed = f"{self._client_bare},{self._message},{found['bare']}".encode()
        signature = _hmac(self._hash, self._credential.stored_key, signed)
        proof = _unbase64(found["proof"], "proof")
        if len(proof) != len(signature):
            raise ProofSizeError(f"SCRAM: the proof has {len(proof)} bytes, but {len(signature)} are expected")
        if not hmac.compare_digest(_digest(self._hash, _xor(proof, signature)), self._credential.stored_key):
            raise BrokerError(ErrorCode.SASL_AUTHENTICATION_FAILED, "SCRAM: invalid user or password")
        return f"v={_base64(_hmac(self._hash, self._credential.server_key, signed))}".encode()


def make_credential(mechanism: str, password: str, salt: bytes, iterations: int) -> ScramCredential:
    """Return the credential that a broker stores for a password.

    Raises:
        ConfigurationError: the mechanism is unknown, or the password is empty.
    """
    return credential_of(mechanism, salted_password(mechanism, password, salt, iterations), salt, iterations)


def credential_of(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Return the credential for a password that has already been salted; see `salted_password`.

    Raises:
        ConfigurationError: the mechanism is unknown.
    """
    name = _hash(mechanism)
    return ScramCredential(salt, _digest(name, _client_key(name, salted)), _server_key(name, salted), iterations)


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Return the key from which all others are derived; its computation takes nearly all the time of a login.

    Raises:
        ConfigurationError: the mechanism is unknown, or the password is empty.
    """
    if not password:
        raise ConfigurationError("password", password, "must not be empty")
    return hashlib.pbkdf2_hmac(_hash(mechanism), password.encode(), salt, iterations)


def sasl_name(user: str) -> str:
    """Return a user name escaped for use in a message."""
    return user.replace("=", "=3D").replace(",", "=2C")


def _read(pattern: re.Pattern[str], data: bytes, what: str) -> tuple[str, dict[str, Any]]:
    """Return the text of a message and its parts. Errors do not quote the message, which may be secret."""
    if len(data) > MESSAGE_BYTES_MAX:
        raise RemoteProtocolError(
            f"SCRAM: the {what} has {len(data)} bytes, but at most {MESSAGE_BYTES_MAX} are allowed"
        )
    try:
        text = bytes(data).decode()
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"SCRAM: the {what} is not UTF-8 at byte {error.start}") from None
    match = pattern.fullmatch(text)
    if match is None:
        raise RemoteProtocolError(f"SCRAM: the {what} of {len(data)} bytes does not follow RFC 5802")
    return text, match.groupdict()


def _hash(mechanism: str) -> str:
    if mechanism not in SCRAM_MECHANISMS:
        raise ConfigurationError("sasl_mechanism", mechanism, f"expected one of {', '.join(SCRAM_MECHANISMS)}")
    return SCRAM_MECHANISMS[mechanism]


def _checked_nonce(nonce: str) -> str:
    if not re.fullmatch(_NONCE, nonce):
        raise ConfigurationError("nonce", nonce, "expected printable ASCII without commas")
    return nonce


def _client_key(name: str, salted: bytes) -> bytes:
    return _hmac(name, salted, b"Client Key")


def _server_key(name: str, salted: bytes) -> bytes:
    return _hmac(name, salted, b"Server Key")


def _hmac(name: str, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, name)


def _digest(name: str, data: bytes) -> bytes:
    return hashlib.new(name, data).digest()


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _unbase64(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise RemoteProtocolError(f"SCRAM: the {what} is not base64") from None
