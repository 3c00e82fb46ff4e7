"""Every message and every record format can be shown; an error about a wrong name suggests the right one.

Method: run the command in this process, and compare the layouts of record formats with their schemas.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kafkawire.codegen import SCHEMAS
from kafkawire.codegen.record_formats import load_record_formats
from kafkawire.commands.schemas.codegen import app
from tests.codegen_command import OWN, run


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Return a folder with a user's own schema."""
    (tmp_path / "greet.yaml").write_text(OWN)
    return tmp_path


def test_show_layout(own: Path) -> None:
    assert run("show", "GreetRequest", 1, "--schemas", own).splitlines() == [
        "FIELD       TYPE      TAG  DEFAULT  ABOUT",
        "people      []Person",
        "  name      string                  of the person",
        "  identity  uuid",
    ]


def test_show_forms(own: Path) -> None:
    assert '"generation_id" / Int32,' in run("show", "HeartbeatRequest", 4, "--form", "construct")
    assert "def decode" in run("show", "HeartbeatRequest", 4, "--form", "python")
    assert json.loads(run("show", "HeartbeatRequest", 4, "--form", "json"))["generationId"] == 0
    assert json.loads(run("show", "GreetRequest", 0, "--form", "json", "--schemas", own)) == {"people": []}


def test_the_last_version_if_none_is_given(own: Path) -> None:
    assert run("show", "HeartbeatRequest") == run("show", "HeartbeatRequest", 4)
    assert run("show", "GreetRequest", "--schemas", own) == run("show", "GreetRequest", 1, "--schemas", own)


@pytest.mark.parametrize("name", load_record_formats(SCHEMAS))
def test_every_record_format(name: str) -> None:
    format_ = load_record_formats(SCHEMAS)[name]
    title, header, *lines = run("show", name).splitlines()
    assert title == f"{name}: {format_.about}"
    assert header.split() == ["FIELD", "TYPE", "AT", "DEFAULT", "ABOUT"]
    shown = [line.split()[:2] for line in lines if not line.startswith(" ")]
    assert shown == [[field.name, field.notation] for field in format_.fields]


def test_a_record_batch() -> None:
    lines = run("show", "RecordBatch", 2).splitlines()
    assert "crc                     uint32    17            crc32c of attributes to the end" in lines
    assert "  compression           bits      0-2           none, gzip, snappy, lz4, zstd" in lines
    assert lines[-1].endswith("the count is in records_count; compressed as given in attributes.compression")


def test_message_sets() -> None:
    both = run("show", "MessageSet")
    assert "MessageV0: " in both
    assert "MessageV1: " in both
    assert run("show", "MessageSet", 1) == run("show", "MessageV1")


@pytest.mark.parametrize("name", ["EndTxnMarker", "LeaderChangeMessage", "SnapshotHeaderRecord", "VotersRecord"])
def test_bodies_of_control_records(name: str) -> None:
    assert run("show", name, 0).startswith("FIELD")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("RecordBatch", 1), "error: RecordBatch has magic 2, not 1"),
        (("MessageSet", 2), "error: MessageSet has magic 0 and 1, not 2"),
        (("RecordBatch", "--form", "json"), "error: a record format can only be shown as layout, not as json"),
        (("RecordBach",), "did you mean RecordBatch?"),
        (("fetchrequest", 4), "did you mean FetchRequest?"),
        (("HeartbeatRequest", 99), "HeartbeatRequest has no version 99"),
    ],
)
def test_mistakes(arguments: tuple[object, ...], text: str) -> None:
    output = run("show", *arguments, code=1)
    assert text in output
    assert output.count("\n") == 1


def test_mistakes_with_schemas_of_ones_own(own: Path) -> None:
    assert (
        run("show", "GreetRequest", 2, "--schemas", own, code=1) == "error: GreetRequest has no version 2; it has 0-1\n"
    )
    for wrong, right in (
        ("GretRequest", "GreetRequest"),
        ("FetchReqest", "FetchRequest"),
        ("RecordBach", "RecordBatch"),
    ):
        assert f"did you mean {right}?" in run("show", wrong, 1, "--schemas", own, code=1)


@pytest.mark.parametrize("form", ["layout", "json"])
def test_what_the_folder_does_not_have_is_kafkas(own: Path, form: str) -> None:
    assert run("show", "HeartbeatRequest", "--form", form, "--schemas", own) == run(
        "show", "HeartbeatRequest", "--form", form
    )
    assert run("show", "RecordBatch", "--schemas", own) == run("show", "RecordBatch")


@pytest.mark.parametrize("form", ["layout", "construct", "python", "json"])
def test_a_removed_version_names_the_release(form: str) -> None:
    note = "ControlledShutdownRequest version 0 was removed in release 4.0"
    assert run("show", "ControlledShutdownRequest", 0, "--form", form).splitlines().count(note) == 1
    assert "was removed" not in run("show", "HeartbeatRequest", 0, "--form", form)


def test_the_last_version_of_a_removed_message() -> None:
    assert run("show", "ControlledShutdownRequest") == run("show", "ControlledShutdownRequest", 3)


def test_what_json_shows_can_be_read() -> None:
    """The note goes to standard error."""
    result = CliRunner().invoke(app, ["show", "ControlledShutdownRequest", "0", "--form", "json"])
    assert json.loads(result.stdout) == {"brokerId": 0}
