"""A user's own APIs are decoded with the schemas in a folder.

Method: run the command on frames and on a capture of the example's API, with its folder and without it; use modified
copies of Kafka's schemas, a folder of records, and a folder of messages that belong to no API.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from examples.own_api.messages.greet import GreetRequest, GreetResponse
from examples.own_api.tables.apis import APIS as OWN
from kafkawire.codegen import SCHEMAS
from kafkawire.commands.inspection.own_schemas import apis_of, folder_of, load_message, record_types_of
from kafkawire.protocol import APIS, ApiKey, ApiRegistry
from kafkawire.sdk.protocol.api_registry import KAFKA_APIS
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.records.internal_records import KAFKA_RECORDS
from tests.captures import Talk, pcap
from tests.codegen_command import run, write_record_schemas

FOLDER = Path("examples/own_api/schemas").resolve()

TALK = Talk(apis=ApiRegistry(APIS, OWN))
TALK.exchange(HeartbeatRequest("g"), HeartbeatResponse(), 4)
REQUEST, RESPONSE = TALK.exchange(GreetRequest([GreetRequest.Person("Ada")]), GreetResponse(throttle_time_ms=5), 2)


def test_frames() -> None:
    request = run("explain", "--schemas", FOLDER, REQUEST.hex())
    assert request.startswith("Greet request, version 2")
    assert "910 (Greet)" in request
    assert "people[0].name" in request
    for asked in (
        ("--request", REQUEST.hex()),
        ("--api", "greet", "--api-version", "2"),
        ("--api", 910, "--api-version", 2),
    ):
        response = run("explain", "--schemas", FOLDER, RESPONSE.hex(), *asked)
        assert response.startswith("Greet response, version 2")
        assert "throttle_time_ms" in response


def test_frames_without_the_folder() -> None:
    assert "no API has the key 910" in run("explain", REQUEST.hex(), code=1)
    assert "unknown API 'greet'" in run("explain", RESPONSE.hex(), "--api", "greet", "--api-version", "2", code=1)


def test_a_capture(tmp_path: Path) -> None:
    """Kafka's own APIs are read along with those in the folder."""
    path = tmp_path / "talk.pcap"
    path.write_bytes(pcap(TALK.packets))
    lines = run("explain", "--schemas", FOLDER, "--pcap", path)
    assert "<Greet request, version 2" in lines
    assert "<Heartbeat response, version 4" in lines
    assert "1 connection, 2 requests, 2 responses" in lines
    assert "people[0].name" in run("explain", "--schemas", FOLDER, "--pcap", path, "--frame", 3)
    assert "no API has the key 910" in run("explain", "--pcap", path)


def test_kafkas_schemas_are_not_generated_again() -> None:
    assert apis_of(SCHEMAS) is KAFKA_APIS
    assert record_types_of(SCHEMAS) is KAFKA_RECORDS


def test_records_of_topics(tmp_path: Path) -> None:
    types = record_types_of(write_record_schemas(tmp_path))
    visit = load_message("VisitKey", tmp_path), load_message("VisitValue", tmp_path)
    assert types.keyed == {**KAFKA_RECORDS.keyed, "__visits": {9: visit}}
    assert types.framed == {**KAFKA_RECORDS.framed, "__lamps": {42: load_message("LampRecord", tmp_path)}}


def test_records_of_a_changed_copy(tmp_path: Path) -> None:
    """Kafka's other types remain available next to a type that the folder changes."""
    folder = tmp_path / "coordinator"
    folder.mkdir()
    shutil.copy(SCHEMAS / "coordinator/consumer_offsets/offset_commit.yaml", folder)
    types = record_types_of(tmp_path)
    offsets = types.keyed["__consumer_offsets"]
    assert offsets[1] == (load_message("OffsetCommitKey", tmp_path), load_message("OffsetCommitValue", tmp_path))
    assert offsets[2] == ("GroupMetadataKey", "GroupMetadataValue")
    assert types.topics == KAFKA_RECORDS.topics


def test_records_of_no_topic() -> None:
    assert record_types_of(FOLDER) is KAFKA_RECORDS


def test_what_the_folder_does_not_have_is_kafkas() -> None:
    assert folder_of("GreetRequest", FOLDER) == FOLDER
    assert folder_of("HeartbeatRequest", FOLDER) == SCHEMAS
    assert load_message("HeartbeatRequest", FOLDER) is HeartbeatRequest


@pytest.mark.parametrize(
    ("name", "near"), [("GretRequest", "GreetRequest"), ("Hartbeat", "HeartbeatRequest"), ("RecordBach", "RecordBatch")]
)
def test_near_names_are_the_folders_and_kafkas(name: str, near: str) -> None:
    with pytest.raises(ValueError, match=f"did you mean {near}\\?"):
        load_message(name, FOLDER)


def test_a_changed_copy(tmp_path: Path) -> None:
    """The folder's API replaces Kafka's, including the field that was changed."""
    folder = tmp_path / "messages"
    folder.mkdir()
    schema = (SCHEMAS / "messages" / "heartbeat.yaml").read_text()
    assert "name: member_id" in schema
    (folder / "heartbeat.yaml").write_text(schema.replace("name: member_id", "name: name_of_member", 1))
    apis = apis_of(tmp_path)
    assert apis[ApiKey.HEARTBEAT].request is load_message("HeartbeatRequest", tmp_path)
    assert "name_of_member" in apis[ApiKey.HEARTBEAT].request.__slots__
    assert apis[ApiKey.FETCH] is KAFKA_APIS[ApiKey.FETCH]


def test_messages_of_no_api(tmp_path: Path) -> None:
    shutil.copytree(SCHEMAS / "groups", tmp_path / "groups")
    assert apis_of(tmp_path) == KAFKA_APIS


@pytest.mark.parametrize("text", ["", "api: Greet\nkey: none\n"])
def test_a_wrong_schema_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "greet.yaml").write_text(text)
    assert "greet.yaml" in run("explain", "--schemas", tmp_path, REQUEST.hex(), code=1)
