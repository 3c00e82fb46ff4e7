"""A whole frame is explained byte by byte: a request from its own header, and a response from its request.

Method: explain every API and version, with all bytes covered in order; explain frames cut at every byte, with extra
bytes, and without their length; run the command on text that users paste.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kafkawire.commands.inspection.explaining.frames import (
    Asked,
    api_named,
    asked_by,
    explain_request,
    explain_response,
)
from kafkawire.protocol import APIS, ApiKey, message_class
from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkawire.sdk.protocol.tables.apis import KNOWN_APIS
from tests.captures import Talk
from tests.codegen_command import run
from tests.thorough import IS_SAMPLE

VERSIONS = [(key, version) for key, api in KNOWN_APIS.items() for version in api.known_versions.numbers()]

#: A sample has the oldest and the newest version of each API.
TRIED = [
    (key, version)
    for key, version in VERSIONS
    if not IS_SAMPLE or version in (KNOWN_APIS[key].known_versions.first, KNOWN_APIS[key].known_versions.last)
]

REQUEST, RESPONSE = Talk().exchange(HeartbeatRequest("g", 1), HeartbeatResponse(5), 4)


def test_every_api_and_version(subtests: pytest.Subtests) -> None:
    for key, version in TRIED:
        with subtests.test(key=key, version=version):
            api = KNOWN_APIS[key]
            asked, answer = message_class(f"{api.name}Request")(), message_class(f"{api.name}Response")()
            request, response = Talk().exchange(asked, answer, version)
            for data, explained in (
                (request, explain_request(request)),
                (response, explain_response(response, asked_by(request))),
                (response, explain_response(response, Asked(api, version))),
            ):
                assert explained.error is None
                assert b"".join(row.data for row in explained.rows) == data
                assert [row.offset for row in explained.rows] == sorted(row.offset for row in explained.rows)
                assert explained.title.startswith(f"{api.name} re")


def test_bytes_behind() -> None:
    inside = (len(REQUEST) - 4 + 2).to_bytes(4, "big") + REQUEST[4:] + b"\xaa\xbb"
    rows = explain_request(inside + b"more").rows
    assert [(row.offset, row.data, row.value) for row in rows[-2:]] == [
        (len(REQUEST), b"\xaa\xbb", "2 bytes after the message, within its frame"),
        (len(REQUEST) + 2, b"more", "4 bytes after the frame"),
    ]


@pytest.mark.parametrize("end", range(len(REQUEST)))
def test_a_cut_at_every_byte(end: int) -> None:
    if end < 12:
        with pytest.raises(ValueError, match=f"a frame of {end} bytes is too short for a request"):
            explain_request(REQUEST[:end])
        return
    explained = explain_request(REQUEST[:end])
    assert explained.error is not None
    assert f"the length prefix is {len(REQUEST) - 4}, but {end - 4} bytes follow" in explained.error
    assert b"".join(row.data for row in explained.rows) == REQUEST[:end]


def test_a_length_that_is_missing() -> None:
    explained = explain_request(REQUEST[4:])
    assert (explained.title, explained.error) == ("Heartbeat request, version 4, without its length prefix", None)
    explained = explain_response(RESPONSE[4:], asked_by(REQUEST))
    assert (explained.title, explained.error) == ("Heartbeat response, version 4, without its length prefix", None)


@pytest.mark.parametrize("version", KNOWN_APIS[ApiKey.PRODUCE].known_versions.numbers())
def test_a_produce_request_without_its_length(version: int) -> None:
    """The request's key and version look like the length of a short frame."""
    request, _ = Talk().exchange(ProduceRequest(acks=1, timeout_ms=100), ProduceResponse(), version)
    explained = explain_request(request[4:])
    assert (explained.title, explained.error) == (
        f"Produce request, version {version}, without its length prefix",
        None,
    )
    assert explain_request(request).title == f"Produce request, version {version}"


def test_api_versions() -> None:
    request, response = Talk().exchange(ApiVersionsRequest("a", "1"), ApiVersionsResponse(), 4)
    unknown = request[:6] + b"\0\x63" + request[8:]
    explained = explain_request(unknown)
    assert explained.error == "ApiVersions has no version 99; known versions: 0-4"
    assert [row.path for row in explained.rows][:5] == [
        "length", "header.request_api_key", "header.request_api_version", "header.correlation_id", "header.client_id"
    ]  # fmt: skip
    refusal = Talk().exchange(ApiVersionsRequest(), ApiVersionsResponse(35), 0)[1]
    explained = explain_response(refusal, Asked(APIS[ApiKey.API_VERSIONS], 4))
    assert (explained.title, explained.error) == ("ApiVersions response, version 0", None)
    assert [row.path for row in explain_response(response, asked_by(request)).rows][1] == "header.correlation_id"


def test_a_response_to_another_request() -> None:
    with pytest.raises(ValueError, match="expected the request's correlation id 7 in the response, got 0"):
        explain_response(RESPONSE, Asked(APIS[ApiKey.HEARTBEAT], 4, 7))


def test_noise_is_an_error_that_says_why() -> None:
    chance = random.Random(5)
    for _ in range(3_000):
        data = bytearray(REQUEST) if chance.random() < 0.7 else bytearray(chance.randbytes(chance.randrange(60)))
        for _ in range(chance.randrange(1, 6)):
            if data:
                data[chance.randrange(len(data))] = chance.randrange(256)
        for explain in (explain_request, lambda data: explain_response(data, Asked(APIS[ApiKey.FETCH], 12))):
            try:
                explained = explain(bytes(data))
            except (ValueError, KafkaWireError) as error:
                assert str(error) != ""  # noqa: PT017 - both outcomes are fine
            else:
                assert b"".join(row.data for row in explained.rows) == bytes(data)


@pytest.mark.parametrize("name", ["Heartbeat", "heartbeat", "HeartbeatRequest", "12"])
def test_names_of_apis(name: str) -> None:
    assert api_named(name).key == ApiKey.HEARTBEAT


def test_the_command(tmp_path: Path) -> None:
    expected = run("explain", REQUEST.hex())
    assert expected.splitlines()[0] == "Heartbeat request, version 4"
    assert "header.request_api_key      12 (Heartbeat)" in expected
    (tmp_path / "frame").write_bytes(REQUEST)
    for same in (
        "0x" + REQUEST.hex(),
        REQUEST.hex(" "),
        " ".join(f"0x{byte:02X}" for byte in REQUEST),
        REQUEST.hex(":"),
    ):
        assert run("explain", same) == expected
    assert run("explain", *REQUEST.hex(" ").split()) == expected
    assert run("explain", f"@{tmp_path / 'frame'}") == expected
    assert run("explain", "-", stdin=REQUEST.hex("\n", 4)) == expected


def test_the_command_on_a_response(tmp_path: Path) -> None:
    expected = run("explain", RESPONSE.hex(), "--request", REQUEST.hex())
    assert expected.splitlines()[0] == "Heartbeat response, version 4"
    (tmp_path / "request").write_bytes(REQUEST)
    assert run("explain", RESPONSE.hex(), "--request", f"@{tmp_path / 'request'}") == expected
    assert run("explain", RESPONSE.hex(), "--api", "heartbeat", "--api-version", 4) == expected


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("deadbeef",), "a frame of 4 bytes is too short for a request; the length and the header alone take 12"),
        (("",), "a frame of 0 bytes is too short for a request"),
        (("ff" * 30,), "no API has the key -1, so this is not a request; for a response"),
        (("0x123",), "expected an even number of hexadecimal digits, got 3"),
        (("00 0g",), "these characters are not hexadecimal: 'g'"),
        (("@/no/such/file",), "No such file"),
        (
            (RESPONSE.hex(), "--api", "Heartbeet", "--api-version", 4),
            "unknown API 'Heartbeet'; did you mean Heartbeat?",
        ),
        ((RESPONSE.hex(), "--api", "Heartbeat"), "either --request, or both --api and --api-version are required"),
        ((RESPONSE.hex(), "--api", "Heartbeat", "--api-version", 99), "HeartbeatResponse has no version 99"),
        ((RESPONSE.hex(), "--request", "00"), "a frame of 1 bytes is too short for a request"),
    ],
)
def test_mistakes(arguments: tuple[object, ...], text: str) -> None:
    output = run("explain", *arguments, code=1)
    assert text in output
    assert output.count("\n") == 1
