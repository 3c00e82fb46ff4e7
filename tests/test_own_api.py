"""A user's own API works end to end: schema, generated code, codecs on every engine, broker and client.

Method: run the example as a reader would; run its parts with brokers that serve the API partly or not at all.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from examples.own_api.broker import Greeter, greeting_broker
from examples.own_api.client import REGISTRY, Greetings
from examples.own_api.messages.greet import GreetRequest, GreetResponse
from examples.own_api.tables.apis import APIS, ApiKey
from kafkawire import BrokerError
from kafkawire.codegen.generate import drift, generated_tree
from kafkawire.errors import LocalProtocolError, UnsupportedVersion
from kafkawire.protocol import APIS as KAFKA
from kafkawire.protocol import (
    ApiRegistry,
    ClientConnection,
    ErrorCode,
    Message,
    ServerConnection,
    VersionRange,
    codec,
    from_json,
    to_json,
)
from kafkawire.sdk.client.core import ClientCore
from kafkawire.sdk.client.options import AdminOptions, read_options
from kafkawire.sdk.protocol.frames import LENGTH_BYTES
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.routing.call import ANY_BROKER
from kafkawire.sdk.transport.waiting import result_of
from kafkawire.testing import ApiHandler, Broker, Call
from tests.engines import AVAILABLE
from tests.own_package import own_package

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "own_api"

OUTPUT = """\
Hello, Ann! (1) Bonjour, Luc ! (1)
Hello, Ann! (2) Bonjour, Luc ! (2)
INVALID_REQUEST: the list of people is empty
"""


Person = GreetRequest.Person


def test_the_example_runs_as_its_page_says() -> None:
    command = [sys.executable, "-W", "error", "-m", "examples.own_api"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (result.stdout, result.stderr, result.returncode) == (OUTPUT, "", 0)


def test_the_programs_of_the_page_run(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "howto" / "add-an-api-of-your-own.md").read_text("utf-8")
    programs = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(programs) == 5
    names: dict[str, Any] = {}
    try:
        for program in programs:
            if "result_of" in program:
                names["broker"].start()
            exec(compile(program.replace('"127.0.0.1:9092"', "broker.bootstrap"), "page", "exec"), names)
    finally:
        if "broker" in names:
            names["broker"].close()
    assert "text='Hello, Ann!'" in capsys.readouterr().out
    assert names["asked"].api is APIS[ApiKey.GREET]


def test_the_code_of_the_example_is_what_its_schema_says() -> None:
    assert not drift(generated_tree(EXAMPLE / "schemas"), EXAMPLE)


@pytest.mark.parametrize("engine", AVAILABLE)
@pytest.mark.parametrize("version", APIS[ApiKey.GREET].versions.numbers())
@pytest.mark.parametrize(
    "message",
    [
        GreetRequest([Person("Ann", "fr"), Person("Łukasz", "pl")]),
        GreetResponse(5, 0, None, [GreetResponse.Greeting("Ann", "hello", 3), GreetResponse.Greeting("Łukasz")]),
    ],
    ids=lambda message: type(message).__name__,
)
def test_codecs_of_every_engine(message: Message, version: int, engine: str) -> None:
    one = codec(type(message), version, engine)
    data = one.build(message)
    assert data == codec(type(message), version).build(message)
    again = one.parse(data)
    assert one.build(again) == data
    assert from_json(type(message), version, to_json(again, version)) == again


FOLDER = {
    "ask": """\
api: Ask
key: 32767
listeners: [broker]
request_header: 1
response_header: 0
request:
  versions: 3-4
  flexible: 4+
  structs:
    - {name: Place, versions: 3+, fields: [{name: x, type: float64}, {name: y, type: float64}]}
  fields:
    - {name: here, type: Place}
    - {name: others, type: "[]Place"}
response: {versions: 3-4, flexible: 4+, fields: [{name: error_code, type: int16}]}
""",
    "seen": """\
record: Seen
type: 3
topic: __seen
key: {versions: 0, fields: [{name: name, type: string}]}
value:
  versions: 0-1
  flexible: 1+
  fields: [{name: at, type: int64}, {name: note, type: string?, versions: 1+, default: null}]
""",
    "lamps/lamp": """\
message: LampRecord
kind: metadata
type: 42
versions: 0
flexible: 0+
fields: [{name: lit, type: bool}]
""",
}


@pytest.mark.parametrize("version", [3, 4])
def test_headers_structures_and_records_of_ones_own(tmp_path: Path, version: int) -> None:
    with own_package(tmp_path, FOLDER) as (messages, apis):
        Place = messages.AskRequest.Place
        request = messages.AskRequest(Place(1.5, 2.5), [Place(), Place(3.0)])
        for message, of in (
            (request, version),
            (messages.SeenKey("Ann"), 0),
            (messages.SeenValue(5, None), version - 3),
            (messages.LampRecord(True), 0),
        ):
            data = {codec(type(message), of, engine).build(message) for engine in AVAILABLE}
            assert [codec(type(message), of, engine).parse(*data) for engine in AVAILABLE] == [message] * len(AVAILABLE)
        registry = ApiRegistry(apis.APIS)
        api = registry.of(messages.AskRequest)
        assert (api.request_header_version(version), api.response_header_version(version)) == (1, 0)
        client = ClientConnection("me", apis=registry)
        server = ServerConnection({api.key: api.versions}, registry)
        asked = server.receive(b"".join(client.request(request, version).parts)[LENGTH_BYTES:])
        assert (asked.message, asked.client_id) == (request, "me")
        answer = b"".join(server.respond(asked, messages.AskResponse(7)))
        assert client.receive(answer[LENGTH_BYTES:]).message == messages.AskResponse(7)


async def greeted(broker: Broker, **options: object) -> GreetResponse:
    client = Greetings(broker.bootstrap, **options)
    await client.start()
    try:
        return await client.greet(Person("Ann"))
    finally:
        await client.close()


@pytest.mark.parametrize("io", ["loop", "thread"])
def test_a_client_awaits_it(io: str) -> None:
    with greeting_broker() as broker:
        response = asyncio.run(greeted(broker, io=io))
        assert list(response.greetings) == [GreetResponse.Greeting("Ann", "Hello, Ann!", 1)]


def test_a_client_blocks_for_it() -> None:
    with greeting_broker() as broker:
        for visits in (1, 2):
            response = result_of(greeted, broker, io="thread")
            assert [each.visits for each in response.greetings] == [visits]


def test_the_client_takes_a_version_that_the_broker_serves() -> None:
    asked = []

    class Noting(Greeter):
        def __call__(self, call: Call, request: GreetRequest) -> GreetResponse:
            asked.append(call.version)
            return super().__call__(call, request)

    for served in (VersionRange(0, 0), VersionRange(0, 1), VersionRange(1, 2)):
        with Broker(ephemeral=True, handlers=[ApiHandler(APIS[ApiKey.GREET], Noting(), served)]) as broker:
            asyncio.run(greeted(broker))
    assert asked == [0, 1, 2]


def test_a_broker_that_does_not_serve_it() -> None:
    with (
        Broker(ephemeral=True) as broker,
        pytest.raises(UnsupportedVersion, match="Greet: the broker does not support this API"),
    ):
        asyncio.run(greeted(broker))


def test_a_refusal_is_an_error_of_the_client() -> None:
    async def run() -> None:
        client = Greetings(broker.bootstrap)
        await client.start()
        try:
            await client.greet()
        finally:
            await client.close()

    with greeting_broker() as broker, pytest.raises(BrokerError, match="the list of people is empty") as caught:
        asyncio.run(run())
    assert caught.value.code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("apis", [REGISTRY, None], ids=["both", "Kafka's"])
def test_what_a_client_may_ask(apis: object) -> None:
    """Kafka's APIs work with either registry; the user's own API works only with the user's registry."""

    async def run() -> None:
        more: dict[str, Any] = {} if apis is None else {"apis": REGISTRY}
        core = ClientCore("sample", read_options(AdminOptions, broker.bootstrap, {}), None, **more)
        await core.start()
        ask = core.operations.request
        try:
            assert (await core.perform(ask(ANY_BROKER, MetadataRequest(None), MetadataResponse))).brokers
            await core.perform(ask(ANY_BROKER, GreetRequest([Person("Ann")]), GreetResponse))
        finally:
            await core.finish()

    with greeting_broker() as broker:
        if apis is None:
            with pytest.raises(LocalProtocolError, match="GreetRequest: no API with the key 910 is in the registry"):
                asyncio.run(run())
        else:
            asyncio.run(run())


def test_own_keys_are_none_of_kafkas() -> None:
    assert KAFKA.keys().isdisjoint(APIS)
