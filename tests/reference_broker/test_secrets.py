"""No password, key or token of a broker and its clients is shown by anything that they write, send or hold.

Method: run a broker and clients that log in in every way, rightly and wrongly, with secrets that can be recognised.
Then search the log, the errors with the variables of our functions, the metrics, what clients can ask for, and the
`repr` of everything that can be reached from the broker and the clients. A secret that is held has to be in a `Secret`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import gc
import logging
import pickle
import traceback
import types
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from kafkawire import (
    Admin,
    Consumer,
    NewTopic,
    Producer,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafkawire.reference_broker.server import Broker
from kafkawire.reference_broker.storage.disk.inodes import Inode
from kafkawire.sdk.errors import AuthenticationFailed, BrokerError
from kafkawire.sdk.protocol.scram import ScramCredential
from kafkawire.sdk.protocol.tables.configs import BROKER_CONFIGS
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType, ConfigType
from kafkawire.sdk.secret import Secret, SecretBytes, SecretText
from tests.certificates import KEY_PASSWORD, Certificates
from tests.kafka.secure import unsecured_token
from tests.reference_broker.http_client import ANY_PORT, status_of

TIMEOUT_SECONDS = 60

PLAIN, SCRAM, WRONG, TOKEN_KEY = "plain-7f1-word", "scram-7f2-word", "wrong-7f3-word", "token-7f4-key"

DYNAMIC = "dynamic-7f5-word"

_MODULES = "org.apache.kafka.common.security"

#: The source files whose functions may not have a secret in a variable when an error leaves them.
_OURS = str(Path(__file__).parents[2])


class Found(NamedTuple):
    """What runs, and its secrets.

    Attributes:
        broker: the broker.
        clients: clients that have logged in.
        errors: why clients could not log in.
        secrets: what may not be shown, keyed by what it is.
        options: the options of a client, for more of them.
    """

    broker: Broker
    clients: list[Any]
    errors: list[BaseException]
    secrets: dict[str, str]
    options: dict[str, Any]


def listener_options(certificates: Certificates) -> dict[str, Any]:
    pem = certificates.broker.read_text()
    key, certificate = pem[: pem.index("-----BEGIN CERT")], pem[pem.index("-----BEGIN CERT") :]
    modules = {
        "plain": f'{_MODULES}.plain.PlainLoginModule required user_alice="{PLAIN}";',
        "scram-sha-256": f"{_MODULES}.scram.ScramLoginModule required;",
        "oauthbearer": f'{_MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="b";',
    }
    return {
        "listeners": "PLAINTEXT://localhost:0,SASL_PLAINTEXT://localhost:0,SSL://localhost:0",
        "ssl.keystore.type": "PEM",
        "listener.name.ssl.ssl.keystore.key": key,
        "listener.name.ssl.ssl.keystore.certificate.chain": certificate,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(modules).upper(),
        "delegation.token.secret.key": TOKEN_KEY,
        "metrics_listen": ANY_PORT,
        **{f"listener.name.sasl_plaintext.{name}.sasl.jaas.config": module for name, module in modules.items()},
    }


@contextlib.asynccontextmanager
async def running(certificates: Certificates) -> AsyncIterator[Found]:
    """Run a broker and clients of every kind."""
    broker = Broker(None, **listener_options(certificates))
    await broker.start()
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(broker.stop)

        async def connected(client: Any) -> Any:
            await stack.enter_async_context(client)
            return client

        at = {name: f"localhost:{address.port}" for name, address in broker.addresses.items()}
        setup = await connected(Admin(at["PLAINTEXT"]))
        credential = UserScramCredentialUpsertion("alice", ScramMechanism.SCRAM_SHA_256, SCRAM)
        (await setup.alter_user_scram_credentials(credential)).all()
        common: dict[str, Any] = {
            "bootstrap_servers": at["SASL_PLAINTEXT"],
            "security_protocol": "SASL_PLAINTEXT",
            "api_timeout_ms": 20_000,
        }
        plain: dict[str, Any] = common | {"sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": PLAIN}
        scram: dict[str, Any] = common | {
            "sasl_mechanism": "SCRAM-SHA-256",
            "sasl_username": "alice",
            "sasl_password": SCRAM,
        }
        bearer = unsecured_token("alice")
        admin = await connected(Admin(**plain))
        await admin.create_topics([NewTopic("t", 1)])
        producer = await connected(Producer(**scram))
        await producer.send("t", b"value")
        oauth: dict[str, Any] = common | {"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token": Secret(bearer)}
        consumer = await connected(Consumer(oauth.pop("bootstrap_servers"), "t", auto_offset_reset="earliest", **oauth))
        await anext(aiter(consumer))
        token = await admin.create_delegation_token()
        with_token: dict[str, Any] = scram | {"sasl_username": token.token_id, "sasl_password": token.hmac.reveal()}
        holder = await connected(Admin(**with_token, sasl_scram_tokenauth=True))
        await holder.list_topics()
        locked_key = certificates.client_locked_key.read_text()
        certified = await connected(
            Admin(
                at["SSL"],
                security_protocol="SSL",
                ssl_truststore_location=str(certificates.authority),
                ssl_keystore_certificate_chain=certificates.client_certificate.read_text(),
                ssl_keystore_key=locked_key,
                ssl_key_password=KEY_PASSWORD,
            )
        )
        await certified.list_topics()
        await change_passwords(setup)
        errors = [
            await refusal(options | {"sasl_password": WRONG})
            for options in (plain, scram, with_token | {"sasl_scram_tokenauth": True})
        ]
        secrets = {
            "password of PLAIN": PLAIN,
            "password of SCRAM": SCRAM,
            "wrong password": WRONG,
            "dynamic password": DYNAMIC,
            "key of all tokens": TOKEN_KEY,
            "key of a token": token.hmac.reveal(),
            "key of a token, decoded": base64.b64decode(token.hmac.reveal()).decode("latin-1"),
            "bearer token": bearer[20:60],
            "private key of the broker": line_of(certificates.broker),
            "private key of a client": line_of(certificates.client_locked_key),
            "password of that key": KEY_PASSWORD,
        }
        clients = [setup, admin, producer, consumer, holder, certified]
        yield Found(broker, clients, errors, secrets, plain)


async def change_passwords(admin: Any) -> None:
    """Set passwords of the running broker under every kind of name; it refuses some of them."""
    names = [name for name, key in BROKER_CONFIGS.items() if key.type == ConfigType.PASSWORD]
    prefixes = ["", *(f"listener.name.{name}." for name in ("ssl", "sasl_plaintext.plain", "other", "dotted.name"))]
    configs = [("1", f"{prefix}{name}") for prefix in prefixes for name in names] + [("1", "own"), ("", "own")]
    reasons = []
    for broker, name in configs:
        try:
            await admin.incremental_alter_configs(ConfigResourceType.BROKER, broker, {name: DYNAMIC})
        except BrokerError as error:
            reasons.append(str(error))
    assert [reason for reason in reasons if DYNAMIC in reason] == []
    assert reasons


async def refusal(options: dict[str, Any]) -> BaseException:
    with pytest.raises(AuthenticationFailed) as caught:
        async with Admin(**options) as admin:
            await admin.list_topics()
    return caught.value


def line_of(key: Path) -> str:
    """Return a part of a private key."""
    return key.read_text().splitlines()[1][:40]


def shown_in(text: str, found: Found) -> list[str]:
    """Return what kinds of secrets are in a text."""
    return [kind for kind, secret in found.secrets.items() if secret in text]


def reachable(roots: list[object]) -> Iterator[tuple[str, object, object]]:
    """Yield each object that can be reached, with the types on the way to it, and the object that refers to it."""
    seen: set[int] = set()
    kept: list[object] = []
    waiting: list[tuple[str, object, object]] = [(type(root).__name__, root, None) for root in roots]
    while waiting:
        path, value, holder = waiting.pop()
        # What this test itself holds is reached by its frames and by the event loop's tasks. The memory for what is
        # received keeps it until something else arrives.
        if id(value) in seen or isinstance(value, _OF_PROGRAMS):
            continue
        seen.add(id(value))
        kept.append(value)  # so that no other object gets its id
        yield path, value, holder
        for inner in gc.get_referents(value):
            waiting.append((f"{path}>{type(inner).__name__}"[-300:], inner, value))


_OF_PROGRAMS = (
    type,
    types.ModuleType,
    types.FunctionType,
    types.CodeType,
    types.FrameType,
    types.CoroutineType,
    types.AsyncGeneratorType,
    asyncio.Task,
    asyncio.AbstractEventLoop,
    Inode,  # the content of a file
    logging.Logger,
    logging.Handler,
    memoryview,
)


def run(test: Any) -> None:
    async def limited() -> None:
        await asyncio.wait_for(test, TIMEOUT_SECONDS)

    asyncio.run(limited())


def test_no_secret_is_shown(certificates: Certificates, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def test() -> None:
        async with running(certificates) as found:
            assert sorted(shown_by_objects(found)) == []
            for error in found.errors:
                assert shown_in(f"{error} {error!r}", found) == []
                assert shown_in(variables(error), found) == []
            _, admin, *_ = found.clients
            assert shown_in(await answers(admin), found) == []
            assert found.broker.metrics_address is not None
            assert shown_in((await status_of(found.broker, "/metrics")).decode(), found) == []
            assert shown_in(caplog.text, found) == []

    run(test())


def shown_by_objects(found: Found) -> set[str]:
    """Return where a secret is shown by a `repr`, or held outside a `Secret`."""
    places = set()
    for path, value, holder in reachable([found.broker, *found.clients]):
        if isinstance(holder, Secret):
            continue
        match value:
            case SecretBytes() | SecretText():
                text = repr(value)
            case bytes() | bytearray():
                text = bytes(value).decode("latin-1")
            case str():
                text = value
            case _:
                text = repr(value)
        places |= {f"{kind}: {path}" for kind in shown_in(text, found)}
    return places


def variables(error: BaseException) -> str:
    """Return the variables of our functions that an error has left, as crash reports show them."""
    lines = []
    each: BaseException | None = error
    while each is not None:
        told = traceback.TracebackException.from_exception(each, capture_locals=True)
        lines += [str(frame.locals) for frame in told.stack if is_ours(frame.filename)]
        each = each.__cause__ or each.__context__
    return "\n".join(lines)


def is_ours(file: str) -> bool:
    return file.startswith(_OURS) and "/tests/" not in file and "/.venv/" not in file


async def answers(admin: Admin) -> str:
    """Return what a client can learn about users, tokens, and the configuration of the broker."""
    configs = [await admin.describe_configs(ConfigResourceType.BROKER, name) for name in ("1", "")]
    users = await admin.describe_user_scram_credentials()
    tokens = await admin.describe_delegation_tokens()
    return f"{configs} {users} {tokens}"


def test_nothing_with_a_secret_is_pickled(certificates: Certificates) -> None:
    broker = Broker(None, **listener_options(certificates))
    for value in (broker.options, broker._security):
        with pytest.raises(TypeError):
            pickle.dumps(value)


@pytest.mark.parametrize(
    ("holder", "is_shown"),
    [
        ({"a": [{"b": f"password={PLAIN}"}]}, True),
        ([bytearray(PLAIN.encode())], True),
        (functools.partial(print, PLAIN), True),
        (Secret(PLAIN), False),
        ([SecretText(PLAIN)], False),
        ([ScramCredential(b"salt", PLAIN.encode(), b"", 4096)], True),
    ],
)
def test_what_is_held_is_found(holder: object, is_shown: bool) -> None:
    found = Found(cast("Broker", None), [holder], [], {"password": PLAIN}, {})
    assert bool(shown_by_objects(found)) is is_shown
