"""Logins as raw messages, well-formed and malformed, for the broker's mechanisms and for Apache Kafka.

A case is a sequence of client messages; a message may depend on the preceding challenge. `outcomes` plays a case and
returns an outcome for each message in a form that does not depend on random data, so that recorded outcomes of Apache
Kafka (`kafka_outcomes.json`) can be compared with those of this broker.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.reference_broker.security.sasl.signing import SigningKeys

__all__ = [
    "CLAIMS",
    "CLOSED",
    "EXPECTED_AUDIENCE",
    "EXPECTED_ISSUER",
    "OUTCOMES",
    "PASSWORDS",
    "SETTINGS",
    "Case",
    "Play",
    "all_cases",
    "outcomes",
    "recorded",
]

#: Outcomes of Apache Kafka, written by `tests/kafka/test_sasl_exchanges.py`.
OUTCOMES = Path(__file__).with_name("kafka_outcomes.json")

#: The users with passwords.
PASSWORDS = {"admin": "admin-secret", "alice": "alice-secret"}

EXPECTED_AUDIENCE = "brokers"
EXPECTED_ISSUER = "https://issuer.example"

#: The outcome if the broker closes the connection without a response.
CLOSED = "closed"

_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"

#: The settings of each kind of login, without the location of the keys.
SETTINGS = {
    "PLAIN": {
        "sasl.jaas.config": f"{_PLAIN_MODULE} "
        + " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
        + ";"
    },
    "SCRAM-SHA-256": {"sasl.jaas.config": _SCRAM_MODULE},
    "SCRAM-SHA-512": {"sasl.jaas.config": _SCRAM_MODULE},
    "OAUTHBEARER": {
        "sasl.jaas.config": f'{_OAUTH_MODULE} unsecuredLoginStringClaim_sub="broker"'
        ' unsecuredValidatorRequiredScope="read write" unsecuredValidatorAllowableClockSkewMs="5000";'
    },
    "OAUTHBEARER signed": {
        "sasl.jaas.config": f'{_OAUTH_MODULE} unsecuredLoginStringClaim_sub="broker";',
        "sasl.server.callback.handler.class": _HANDLER,
        "sasl.oauthbearer.expected.audience": f"others,{EXPECTED_AUDIENCE}",
        "sasl.oauthbearer.expected.issuer": EXPECTED_ISSUER,
    },
}


class Play(NamedTuple):
    """What a message may depend on.

    Attributes:
        challenge: the preceding challenge of the broker.
        now_ms: the time at the beginning.
        keys: sign tokens; the broker knows their public halves.
    """

    challenge: bytes
    now_ms: int
    keys: SigningKeys


Message = bytes | Callable[[Play], bytes]

#: Sends a message; returns a challenge, or an outcome that ends the login.
Send = Callable[[bytes], bytes | list[Any] | str]


class Case(NamedTuple):
    """A login.

    Attributes:
        kind: the kind of login: a key of `SETTINGS`.
        name: what is special; unique within the kind.
        messages: the messages of the client.
    """

    kind: str
    name: str
    messages: tuple[Message, ...]


def outcomes(case: Case, send: Send, now_ms: int, keys: SigningKeys) -> list[Any]:
    """Play a case until the broker refuses the client.

    Returns:
        For each message that was sent, the text of a challenge, a list of an error code and a text, or `CLOSED`.
    """
    found: list[Any] = []
    challenge = b""
    for message in case.messages:
        sent = message if isinstance(message, bytes) else message(Play(challenge, now_ms, keys))
        answer = send(sent)
        if not isinstance(answer, bytes):
            return [*found, answer]
        challenge = answer
        found.append(_stable(answer, sent))
    return found


def recorded() -> dict[str, list[Any]]:
    """Return the recorded outcomes of Apache Kafka, keyed by kind and name, with a space in between."""
    found: dict[str, list[Any]] = json.loads(OUTCOMES.read_text())
    return found


def all_cases() -> Iterator[Case]:
    """Yield every case."""
    for name, message in _plain():
        yield Case("PLAIN", name, (message,))
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        for name, messages in _scram(mechanism):
            yield Case(mechanism, name, messages)
    for name, messages in _oauth():
        yield Case("OAUTHBEARER", name, messages)
    for name, messages in _signed():
        yield Case("OAUTHBEARER signed", name, messages)


def _stable(challenge: bytes, message: bytes) -> str:
    """Return a challenge without the random parts of SCRAM: the broker's nonce, its salt, and its signature."""
    text = challenge.decode()
    sent = re.search(rb",r=([^,]*)", message)
    if sent and text.startswith(f"r={sent[1].decode()}"):
        text = f"r={sent[1].decode()}NONCE,s=SALT,{text.rpartition(',')[2]}"
    return re.sub(r"^v=.+", "v=SIGNATURE", text)


def _plain() -> Iterator[tuple[str, bytes]]:
    good = b"\0alice\0alice-secret"
    yield from {
        "right": good,
        "right, with its own name as authorization id": b"alice" + good,
        "another user as authorization id": b"admin" + good,
        "an unknown authorization id": b"x" + good,
        "an authorization id with a trailing space": b"alice " + good,
        "wrong password": b"\0alice\0wrong-secret",
        "wrong password and another authorization id": b"admin\0alice\0wrong-secret",
        "password of another user": b"\0alice\0admin-secret",
        "part of the password": good[:-1],
        "more than the password": good + b"x",
        "password in capitals": b"\0alice\0ALICE-SECRET",
        "a newline after the password": good + b"\n",
        "unknown user": b"\0bob\0alice-secret",
        "user in capitals": b"\0Alice\0alice-secret",
        "user with a space": b"\0alice \0alice-secret",
        "name with the prefix of the option": b"\0user_alice\0alice-secret",
        "no name": b"\0\0alice-secret",
        "no password": b"\0alice\0",
        "neither name nor password": b"\0\0",
        "no name, but an authorization id": b"alice\0\0alice-secret",
        "a blank name": b"\0 \0alice-secret",
        "a blank password": b"\0alice\0 ",
        "nothing": b"",
        "one part": b"alice",
        "two parts": b"alice\0alice-secret",
        "one separator": b"\0",
        "four parts": good + b"\0",
        "four parts with content": good + b"\0x",
        "five parts": good + b"\0\0",
        "many parts": b"\0" * 100,
        "not UTF-8 in the name": b"\0al\xffice\0alice-secret",
        "not UTF-8 in the password": b"\0alice\0\xff\xfe",
        "not UTF-8 in the authorization id": b"\xff" + good,
        "a truncated character": b"\0alice\0alice-secret\xc3",
        "an overlong separator": b"\xc0\x80alice\xc0\x80alice-secret",
        "characters outside ASCII": "\0älice\0älice-secret".encode(),
        "characters outside the BMP": "\0alice\0\U0001f511".encode(),
        "a combining character": "\0alice\u0301\0alice-secret".encode(),
        "a byte order mark": b"\xef\xbb\xbf" + good,
        "UTF-16": "\0alice\0alice-secret".encode("utf-16-le"),
        "a long name": b"\0" + b"a" * 10_000 + b"\0alice-secret",
        "a long password": b"\0alice\0" + b"p" * 10_000,
        "a long authorization id": b"z" * 10_000 + good,
        "control characters": b"\0ali\x01ce\0alice-secret",
        "quotation marks": b'\0"alice"\0"alice-secret"',
        "an equals sign": b"\0alice=\0alice-secret",
        "a message of SCRAM": b"n,,n=alice,r=client",
        "a message of OAUTHBEARER": b"n,,\x01auth=Bearer x\x01\x01",
        "a ticket of Kerberos": b"\x60\x82\x01\x00",
        "JSON": b'{"user":"alice","password":"alice-secret"}',
        "a tab between the parts": b"\talice\talice-secret",
        "parts in another order": b"alice-secret\0alice\0",
        "name and password swapped": b"\0alice-secret\0alice",
        "the other user": b"\0admin\0admin-secret",
        "the other user for itself": b"admin\0admin\0admin-secret",
        "the other user for the first": b"alice\0admin\0admin-secret",
        "a NUL in the authorization id": b"a\0lice" + good,
        "a single NUL after the name": b"alice\0",
        "spaces only": b"   ",
        "newlines only": b"\n\n\n",
    }.items()


def _scram(mechanism: str) -> Iterator[tuple[str, tuple[Message, ...]]]:
    for name, first in _scram_first().items():
        yield name, (first,)
    first = b"n,,n=alice,r=client"
    for name, final in _scram_final(mechanism, first).items():
        yield f"final message: {name}", (first, final)
    for name, opening in {
        "an authorization id": b"n,a=alice,n=alice,r=client",
        "a reserved attribute": b"n,,m=new,n=alice,r=client",
        "an extension": b"n,,n=alice,r=client,x=y",
        "an extension for tokens that is false": b"n,,n=alice,r=client,tokenauth=false",
    }.items():
        yield f"right, with {name}", (opening, _proof(mechanism, opening))


def _scram_first() -> dict[str, bytes]:
    return {
        "right": b"n,,n=alice,r=client",
        "another authorization id": b"n,a=admin,n=alice,r=client",
        "another authorization id, and an unknown user": b"n,a=admin,n=bob,r=client",
        "an authorization id that needs escapes": b"n,a=al=2Cice,n=alice,r=client",
        "an invalid authorization id": b"n,a=al=ice,n=alice,r=client",
        "an empty authorization id": b"n,a=,n=alice,r=client",
        "an unknown user": b"n,,n=bob,r=client",
        "a user with escapes": b"n,,n=a=2Cb=3D,r=client",
        "an invalid escape": b"n,,n=al=2cice,r=client",
        "an escape of an escape": b"n,,n==3D2C,r=client",
        "an equals sign in the name": b"n,,n=alice=,r=client",
        "no name": b"n,,n=,r=client",
        "no nonce": b"n,,n=alice,r=",
        "a space in the nonce": b"n,,n=alice,r=cli ent",
        "all printable characters in the nonce": b"n,,n=alice,r=!\"#$%&'()*+-./:;<=>?@[]^_`{|}~",
        "channel binding that the broker should not support": b"y,,n=alice,r=client",
        "channel binding": b"p=tls-unique,,n=alice,r=client",
        "an unknown flag": b"x,,n=alice,r=client",
        "a flag in capitals": b"N,,n=alice,r=client",
        "no flag": b",,n=alice,r=client",
        "no header": b"n=alice,r=client",
        "nothing": b"",
        "a header only": b"n,,",
        "attributes in another order": b"n,,r=client,n=alice",
        "a reserved attribute without a value": b"n,,m=,n=alice,r=client",
        "an extension without a value": b"n,,n=alice,r=client,x=",
        "an extension without a name": b"n,,n=alice,r=client,=y",
        "an extension with a digit in its name": b"n,,n=alice,r=client,x1=y",
        "an extension with an equals sign": b"n,,n=alice,r=client,x=a=b",
        "a trailing comma": b"n,,n=alice,r=client,",
        "an unknown token": b"n,,n=token,r=client,tokenauth=true",
        "a user as a token": b"n,,n=alice,r=client,tokenauth=true",
        "a user as a token in capitals": b"n,,n=alice,r=client,tokenauth=TRUE",
        "a token that is neither": b"n,,n=alice,r=client,tokenauth=maybe",
        "another extension in capitals": b"n,,n=alice,r=client,TOKENAUTH=true",
        "characters outside ASCII in the name": "n,,n=älice,r=client".encode(),
        "characters outside ASCII in an extension": "n,,n=alice,r=client,x=ä".encode(),
        "not UTF-8": b"n,,n=al\xffice,r=client",
        "a NUL in the name": b"n,,n=al\0ice,r=client",
        "a control character in the name": b"n,,n=al\x01ice,r=client",
        "a newline at the end": b"n,,n=alice,r=client\n",
        "a long name": b"n,,n=" + b"a" * 500 + b",r=client",
        "a long nonce": b"n,,n=alice,r=" + b"c" * 5_000,
        "a message of PLAIN": b"\0alice\0alice-secret",
        "a message of OAUTHBEARER": b"n,,\x01auth=Bearer x\x01\x01",
        "a final message": b"c=biws,r=client,p=AAAA",
    }


def _scram_final(mechanism: str, first: bytes) -> dict[str, Message]:
    def proof(**changes: Any) -> Message:
        return _proof(mechanism, first, **changes)

    def changed(old: bytes, new: bytes) -> Message:
        return lambda play: _proof(mechanism, first)(play).replace(old, new)

    size = 32 if mechanism.endswith("256") else 64
    wrong = base64.b64encode(bytes(size))
    return {
        "right": proof(),
        "wrong password": proof(password="wrong-secret"),
        "another channel binding": proof(binding="eSws"),
        "an empty channel binding": proof(binding=""),
        "another channel binding that is not signed": changed(b"c=biws", b"c=eSws"),
        "a channel binding that is not base64": changed(b"c=biws", b"c=biw"),
        "an extension that is not signed": changed(b",p=", b",x=y,p="),
        "an extension that is signed": proof(extension=",x=y"),
        "the nonce of the client only": lambda play: b"c=biws,r=client,p=" + wrong,
        "another nonce": changed(b"r=client", b"r=other"),
        "a longer nonce": changed(b",p=", b"x,p="),
        "a wrong proof": lambda play: b"c=biws,r=" + _nonce(play) + b",p=" + wrong,
        "a short proof": lambda play: b"c=biws,r=" + _nonce(play) + b",p=AAAA",
        "a long proof": lambda play: b"c=biws,r=" + _nonce(play) + b",p=" + b"AAAA" * 100,
        "an empty proof": lambda play: b"c=biws,r=" + _nonce(play) + b",p=",
        "a proof that is not base64": lambda play: b"c=biws,r=" + _nonce(play) + b",p=A",
        "a proof with a space": lambda play: b"c=biws,r=" + _nonce(play) + b",p=AA A",
        "no proof": lambda play: b"c=biws,r=" + _nonce(play),
        "attributes in another order": lambda play: b"r=" + _nonce(play) + b",c=biws,p=" + wrong,
        "text after the proof": lambda play: _proof(mechanism, first)(play) + b",x=y",
        "nothing": b"",
        "the first message again": first,
        "not UTF-8": b"c=biws,r=\xff,p=" + wrong,
    }


def _nonce(play: Play) -> bytes:
    return play.challenge.partition(b",")[0].removeprefix(b"r=")


def _proof(
    mechanism: str, first: bytes, *, password: str = "alice-secret", binding: str = "biws", extension: str = ""
) -> Callable[[Play], bytes]:
    """Return a final message, computed without the code under test; a reserved attribute is not signed, as in Kafka."""
    name = "sha256" if mechanism.endswith("256") else "sha512"

    def message(play: Play) -> bytes:
        fields = dict(part.split("=", 1) for part in play.challenge.decode().split(","))
        salted = hashlib.pbkdf2_hmac(name, password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
        client_key = hmac.digest(salted, b"Client Key", name)
        bare = first.decode().split(",", 2)[2].removeprefix("m=new,")
        without_proof = f"c={binding},r={fields['r']}{extension}"
        signed = f"{bare},{play.challenge.decode()},{without_proof}".encode()
        signature = hmac.digest(hashlib.new(name, client_key).digest(), signed, name)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    return message


#: The claims of an acceptable token; times are relative, in seconds.
CLAIMS: dict[str, Any] = {"sub": "alice", "iat": -60, "exp": 3600, "scope": ["read", "write"]}


def _unsecured(
    header: object = None, signature: str = "", text: bytes | None = None, **changes: Any
) -> Callable[[Play], str]:
    """Return a function that makes an unsigned token; a claim that is changed to `...` is left out."""

    def token(play: Play) -> str:
        claims = json.dumps(_claims(play, CLAIMS | changes)).encode() if text is None else text
        head = (
            header if isinstance(header, bytes) else json.dumps({"alg": "none"} if header is None else header).encode()
        )
        return f"{_url64(head)}.{_url64(claims)}.{signature}"

    return token


def _claims(play: Play, claims: dict[str, Any]) -> dict[str, Any]:
    """Return claims with absolute times."""
    now = play.now_ms // 1000
    return {
        name: value + now if name in ("exp", "iat", "nbf") and type(value) in (int, float) else value
        for name, value in claims.items()
        if value is not ...
    }


def _url64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _initial(token: str | Callable[[Play], str], form: str = "n,,\x01auth=Bearer {}\x01\x01") -> Message:
    return lambda play: form.replace("{}", token if isinstance(token, str) else token(play)).encode()


def _oauth() -> Iterator[tuple[str, tuple[Message, ...]]]:
    good = _unsecured()
    yield "right", (_initial(good),)
    yield "refused, then acknowledged", (_initial("x"), b"\x01")
    yield "refused, then another token", (_initial("x"), _initial(good))
    yield "refused, then neither", (_initial("x"), b"")
    yield "acknowledged without a refusal", (b"\x01",)
    yield "insufficient scope, then acknowledged", (_initial(_unsecured(scope="read")), b"\x01")
    for name, form in {
        "an authorization id": "n,a=alice,\x01auth=Bearer {}\x01\x01",
        "another authorization id": "n,a=admin,\x01auth=Bearer {}\x01\x01",
        "an authorization id with an escape": "n,a=al=2Cice,\x01auth=Bearer {}\x01\x01",
        "an invalid authorization id": "n,a=al=ice,\x01auth=Bearer {}\x01\x01",
        "extensions": "n,,\x01auth=Bearer {}\x01traceId=123\x01lot=A B\x01\x01",
        "extensions before the token": "n,,\x01traceId=123\x01auth=Bearer {}\x01\x01",
        "an extension without a value": "n,,\x01auth=Bearer {}\x01traceId=\x01\x01",
        "an extension with a digit in its name": "n,,\x01auth=Bearer {}\x01trace1=x\x01\x01",
        "an extension outside ASCII": "n,,\x01auth=Bearer {}\x01trace=ä\x01\x01",
        "an extension with an equals sign": "n,,\x01auth=Bearer {}\x01trace=a=b\x01\x01",
        "a token given twice": "n,,\x01auth=Bearer x\x01auth=Bearer {}\x01\x01",
        "scheme in small letters": "n,,\x01auth=bearer {}\x01\x01",
        "scheme in capitals": "n,,\x01auth=BEARER {}\x01\x01",
        "several spaces": "n,,\x01auth=Bearer   {}\x01\x01",
        "no space": "n,,\x01auth=Bearer{}\x01\x01",
        "a tab": "n,,\x01auth=Bearer\t{}\x01\x01",
        "another scheme": "n,,\x01auth=Basic {}\x01\x01",
        "no token": "n,,\x01auth=Bearer\x01\x01",
        "no auth": "n,,\x01traceId=123\x01\x01",
        "nothing after the header": "n,,\x01\x01",
        "channel binding": "y,,\x01auth=Bearer {}\x01\x01",
        "one separator at the end": "n,,\x01auth=Bearer {}\x01",
        "three separators at the end": "n,,\x01auth=Bearer {}\x01\x01\x01",
        "no separators": "n,,auth=Bearer {}",
        "a newline at the end": "n,,\x01auth=Bearer {}\x01\x01\n",
        "a space after the token": "n,,\x01auth=Bearer {} \x01\x01",
        "padding after the token": "n,,\x01auth=Bearer {}==\x01\x01",
    }.items():
        yield name, (_initial(good, form),)
    yield "nothing", (b"",)
    yield "not UTF-8", (b"n,,\x01auth=Bearer \xff\x01\x01",)
    yield "a message of PLAIN", (b"\0alice\0alice-secret",)
    for name, token in _unsecured_tokens().items():
        yield f"token: {name}", (_initial(token),)


def _unsecured_tokens() -> dict[str, str | Callable[[Play], str]]:
    return {
        "one part": "x",
        "two parts": "e30.e30",
        "three dots": "e30.e30..",
        "an empty header": ".e30.",
        "a header that is not base64": "e~0.e30.",
        "a header that is not JSON": _unsecured(header=b"{"),
        "a header that is a list": _unsecured(header=["none"]),
        "claims that are not JSON": _unsecured(text=b"{]"),
        "claims that are text": _unsecured(text=b'"sub"'),
        "text after the claims": _unsecured(text=b'{"sub":"alice","exp":9999999999,"scope":["read","write"]} x'),
        "claims after a byte order mark": _unsecured(text=b'\xef\xbb\xbf{"sub":"alice","exp":9999999999}'),
        "claims in UTF-16": _unsecured(text='{"sub":"alice","exp":9999999999}'.encode("utf-16-be")),
        "a number that is not JSON": _unsecured(text=b'{"sub":"alice","exp":NaN}'),
        "no algorithm": _unsecured(header={}),
        "another algorithm": _unsecured(header={"alg": "HS256"}),
        "an algorithm in capitals": _unsecured(header={"alg": "NONE"}),
        "an algorithm that is a number": _unsecured(header={"alg": 1}),
        "a signature": _unsecured(signature="AAAA"),
        "no subject": _unsecured(sub=...),
        "a blank subject": _unsecured(sub=" "),
        "a subject that is a number": _unsecured(sub=1),
        "a subject that is true": _unsecured(sub=True),
        "a subject that is null": _unsecured(sub=None),
        "a subject that is a list": _unsecured(sub=["alice"]),
        "no expiry": _unsecured(exp=...),
        "an expiry that is text": _unsecured(exp="tomorrow"),
        "an expiry that is null": _unsecured(exp=None),
        "expired": _unsecured(exp=-30, iat=-60),
        "expired within the clock skew": _unsecured(exp=-1),
        "a fractional expiry": _unsecured(exp=0.75),
        "a huge expiry": _unsecured(text=b'{"sub":"alice","exp":1e400,"scope":["read","write"]}'),
        "issued in the future": _unsecured(iat=60),
        "issued within the clock skew": _unsecured(iat=2),
        "not issued": _unsecured(iat=...),
        "issued at text": _unsecured(iat="now"),
        "issued after the expiry": _unsecured(exp=1, iat=2),
        "no scope": _unsecured(scope=...),
        "a scope that is a number": _unsecured(scope=1),
        "a scope that is text": _unsecured(scope="read write"),
        "scopes with spaces": _unsecured(scope=[" read ", "write ", " "]),
        "some of the scopes": _unsecured(scope=["read"]),
        "more scopes": _unsecured(scope=["read", "write", "all"]),
        "duplicate claims": _unsecured(text=b'{"sub":"bob","sub":"alice","exp":9999999999,"scope":["read","write"]}'),
        "not before a later time": _unsecured(nbf=1000),
    }


#: The claims of an acceptable signed token.
_SIGNED: dict[str, Any] = {
    "sub": "alice",
    "iat": -60,
    "exp": 3600,
    "iss": EXPECTED_ISSUER,
    "aud": EXPECTED_AUDIENCE,
}


def _signature(
    key: str = "rsa", algorithm: str = "RS256", header: object = None, **changes: Any
) -> Callable[[Play], str]:
    """Return a function that makes a signed token; a claim that is changed to `...` is left out."""

    def token(play: Play) -> str:
        head = {"alg": algorithm, "kid": key} if header is None else header
        return play.keys.sign(key, algorithm, head, _claims(play, _SIGNED | changes))

    return token


def _changed(change: Callable[[list[str]], list[str]]) -> Callable[[Play], str]:
    """Return a function that makes a signed token, and changes its parts."""
    return lambda play: ".".join(change(_signature()(play).split(".")))


def _signed() -> Iterator[tuple[str, tuple[Message, ...]]]:
    for key, algorithms in SigningKeys.ALGORITHMS.items():
        for algorithm in algorithms:
            yield f"right: {algorithm} {key}", (_initial(_signature(key, algorithm)),)
    for name, token in (_signed_headers() | _signed_claims()).items():
        yield name, (_initial(token),)
    yield "an unknown key, acknowledged", (_initial(_signature(header={"alg": "RS256", "kid": "other"})), b"\x01")
    yield "another authorization id", (_initial(_signature(), "n,a=admin,\x01auth=Bearer {}\x01\x01"),)


def _signed_headers() -> dict[str, Callable[[Play], str]]:
    return {
        "an unsigned token": _unsecured(),
        "an empty signature": _changed(lambda parts: [*parts[:2], ""]),
        "a cut signature": _changed(lambda parts: [*parts[:2], parts[2][:-4]]),
        "another signature": _changed(lambda parts: [*parts[:2], "A" * len(parts[2])]),
        "other claims": _changed(lambda parts: [parts[0], _url64(b'{"sub":"admin"}'), parts[2]]),
        "one part": _changed(lambda parts: parts[:1]),
        "two parts": _changed(lambda parts: parts[:2]),
        "four parts": _changed(lambda parts: [*parts, "AAAA"]),
        "five parts": _changed(lambda parts: [*parts, "AAAA", "AAAA"]),
        "a dot at the end": _changed(lambda parts: [*parts, ""]),
        "an unknown key": _signature(header={"alg": "RS256", "kid": "other"}),
        "no key id": _signature(header={"alg": "RS256"}),
        "no key id, and a curve": _signature("p256", "ES256", header={"alg": "ES256"}),
        "the id of another key": _signature(header={"alg": "RS256", "kid": "rsa-other"}),
        "the id of a key of another type": _signature(header={"alg": "RS256", "kid": "p256"}),
        "a key for encryption": _signature("rsa-encryption", "RS256"),
        "a key for another algorithm": _signature("rsa-256", "RS512"),
        "a key for this algorithm": _signature("rsa-256", "RS256"),
        "a short key": _signature("rsa-1024", "RS256"),
        "a key that signs with its public half": _signature("rsa", "HS256"),
        "no algorithm": _signature(header={"kid": "rsa"}),
        "an unknown algorithm": _signature(header={"alg": "RS1", "kid": "rsa"}),
        "no algorithm but a signature": _signature(header={"alg": "none", "kid": "rsa"}),
        "an algorithm that does not match": _signature(header={"alg": "PS256", "kid": "rsa"}),
        "a critical header": _signature(header={"alg": "RS256", "kid": "rsa", "crit": ["x"], "x": 1}),
        "a header that is a list": _signature(header=["RS256"]),
        "another type": _signature(header={"alg": "RS256", "kid": "rsa", "typ": "anything"}),
    }


def _signed_claims() -> dict[str, Callable[[Play], str]]:
    return {
        "no subject": _signature(sub=...),
        "a blank subject": _signature(sub=" "),
        "a subject with spaces": _signature(sub=" alice "),
        "a subject that is a number": _signature(sub=1),
        "a subject that is null": _signature(sub=None),
        "no expiry": _signature(exp=...),
        "an expiry that is text": _signature(exp="9999999999"),
        "an expiry that is null": _signature(exp=None),
        "a fractional expiry": _signature(exp=10.5),
        "expired": _signature(exp=-40),
        "expired within the clock skew": _signature(exp=-10),
        "a negative expiry": _signature(exp=-10_000_000_000, iat=-20_000_000_000),
        "not issued": _signature(iat=...),
        "issued at text": _signature(iat="now"),
        "issued in the future": _signature(iat=600),
        "issued after the expiry": _signature(iat=700, exp=600),
        "not before a later time": _signature(nbf=600),
        "not before within the clock skew": _signature(nbf=10),
        "not before text": _signature(nbf="now"),
        "not before after the expiry": _signature(nbf=20, exp=10),
        "another issuer": _signature(iss="https://other.example"),
        "no issuer": _signature(iss=...),
        "an issuer that is a number": _signature(iss=1),
        "another audience": _signature(aud="clients"),
        "no audience": _signature(aud=...),
        "several audiences": _signature(aud=["clients", EXPECTED_AUDIENCE]),
        "other audiences": _signature(aud=["clients"]),
        "no audiences": _signature(aud=[]),
        "an audience that is a number": _signature(aud=1),
        "audiences that are numbers": _signature(aud=[1]),
        "an id that is a number": _signature(jti=1),
        "a scope that is text": _signature(scope="read write"),
        "scopes": _signature(scope=["read", "write"]),
        "scopes given twice": _signature(scope=["read", " read"]),
        "a blank scope": _signature(scope=["read", " "]),
        "an empty scope": _signature(scope=""),
        "a scope that is a number": _signature(scope=1),
        "scopes that are numbers": _signature(scope=[1]),
        "a scope that is null": _signature(scope=[None]),
    }
