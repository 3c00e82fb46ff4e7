"""What a Kafka jar defines is read: facts with their oddities, no descriptions; what cannot be read is named.

Method: jars made here, with one definition of every feature. `test_importer.py` reads a whole release where there is
one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkawire.codegen.definitions import DefinitionError, read_jars
from kafkawire.codegen.spec import NO_DEFAULT
from kafkawire.codegen.versions import NONE, Versions
from tests.codegen.jars import PING, PONG, write_jar


def changed(definition: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**definition, **changes}


def test_message(tmp_path: Path) -> None:
    ping, pong = read_jars([write_jar(tmp_path / "kafka-clients.jar", PONG, PING)])
    assert (ping.name, ping.kind, ping.key, ping.listeners) == ("PingRequest", "request", 900, ("broker", "controller"))
    assert (str(ping.versions), str(ping.flexible), str(ping.deprecated), ping.unstable) == ("0-3", "2+", "0", True)
    assert [struct.name for struct in ping.structs] == ["Item"]
    assert ping.structs[0].fields[0].map_key
    assert (pong.name, pong.unstable, pong.deprecated, pong.listeners) == ("PingResponse", False, NONE, ())
    assert [field.name for field in pong.fields[0].fields or ()] == ["id"]


def test_fields(tmp_path: Path) -> None:
    (ping,) = read_jars([write_jar(tmp_path / "kafka-clients.jar", PING)])
    group, items, rack, timeout, wait = ping.fields
    assert (group.name, group.entity, group.about, group.default) == ("group_id", "group_id", "", NO_DEFAULT)
    assert (items.type, items.array, str(items.nullable), items.default) == ("Item", True, "1+", None)
    assert (rack.name, rack.versions, rack.tag, rack.tagged) == (
        "rack_id",
        Versions.parse("2+"),
        0,
        Versions.parse("2+"),
    )
    assert (timeout.default, wait.default) == (127, True)


@pytest.mark.parametrize(
    ("kind", "value", "default"),
    [
        ("string", "null", None),
        ("string", None, NO_DEFAULT),
        ("string", "", ""),
        ("string", "x", "x"),
        ("int64", "-0x10", -16),
        ("int8", -1, -1),
        ("bool", False, False),
        ("float64", "1.5", 1.5),
        ("[]int32", "null", None),
        ("bytes", "", NO_DEFAULT),
    ],
)
def test_default(tmp_path: Path, kind: str, value: object, default: object) -> None:
    field = {"name": "A", "type": kind, "versions": "0+", "default": value}
    (message,) = read_jars([write_jar(tmp_path / "kafka-a.jar", changed(PONG, fields=[field]))])
    assert message.fields[0].default == default
    assert type(message.fields[0].default) is type(default)


def test_folder_of_jars(tmp_path: Path) -> None:
    write_jar(tmp_path / "kafka-clients.jar", PING)
    write_jar(tmp_path / "kafka-raft.jar", PONG, folder="common/metadata/")
    write_jar(tmp_path / "other.jar", changed(PONG, name="OtherResponse"))
    assert [message.name for message in read_jars([tmp_path])] == ["PingRequest", "PingResponse"]


def test_the_same_definition_in_two_jars(tmp_path: Path) -> None:
    first, second = (write_jar(tmp_path / f"kafka-{name}.jar", PING) for name in "ab")
    assert len(read_jars([first, second])) == 1
    write_jar(second, changed(PING, validVersions="0-4"))
    with pytest.raises(
        DefinitionError, match=r"kafka-b\.jar!common/message/PingRequest\.json: .* twice, and differently"
    ):
        read_jars([first, second])


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        (changed(PING, validVersions="0..3"), "PingRequest.json: ValueError: '0..3' is no version range"),
        ({key: value for key, value in PING.items() if key != "validVersions"}, "KeyError: 'validVersions'"),
        (
            changed(PONG, fields=[{"name": "A", "type": "bytes", "versions": "0", "default": "x"}]),
            "default 'x' for a field",
        ),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, definition: dict[str, Any], reason: str) -> None:
    with pytest.raises(DefinitionError, match=reason):
        read_jars([write_jar(tmp_path / "kafka-a.jar", definition)])


def test_no_jar_and_no_definitions(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="no such jar or folder"):
        read_jars([tmp_path / "missing.jar"])
    (tmp_path / "text.jar").write_text("no zip")
    with pytest.raises(DefinitionError, match="not a jar"):
        read_jars([tmp_path / "text.jar"])
    with pytest.raises(DefinitionError, match="no message definitions"):
        read_jars([write_jar(tmp_path / "kafka-empty.jar")])
