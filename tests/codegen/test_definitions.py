"""The facts in a Kafka jar's definitions are read, oddities included, descriptions not; unreadable ones are reported.

Method: read jars written by the test, with one definition for every feature. `test_importer.py` reads a whole release
if one is available.
"""

from __future__ import annotations

import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from kafkawire.codegen.definitions import read_jars, read_release, release_number, release_order
from kafkawire.codegen.located import SchemaError
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
    assert [field.zero_copy for field in ping.fields] == [False] * 5


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
    nullable = "0+" if value == "null" else "none"
    field = {"name": "A", "type": kind, "versions": "0+", "nullableVersions": nullable, "default": value}
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
        SchemaError, match=r"kafka-b\.jar!common/message/PingRequest\.json: .* has two different definitions"
    ):
        read_jars([first, second])


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        (
            changed(PING, validVersions="0..3"),
            r"PingRequest.json:\d+: PingRequest: validVersions: '0..3' is not a version range",
        ),
        (changed(PING, name="../../evilRequest"), "'../../evilRequest' is not CamelCase"),
        (changed(PING, name="Ping Request"), "'Ping Request' is not CamelCase"),
        (
            {key: value for key, value in PING.items() if key != "validVersions"},
            "PingRequest: 'validVersions' is missing",
        ),
        (
            changed(PONG, fields=[{"name": "A", "type": "bytes", "versions": "0", "default": "x"}]),
            "PingResponse: field A: default 'x' is not valid for a field",
        ),
        (changed(PONG, flexibleVersions="9+"), "PingResponse: flexible: 9[+] begins after the last of the versions"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, definition: dict[str, Any], reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        read_jars([write_jar(tmp_path / "kafka-a.jar", definition)])


def test_release(tmp_path: Path) -> None:
    jar = write_jar(tmp_path / "kafka-clients-3.9.1.jar", PING, PONG)
    write_jar(tmp_path / "kafka-a.jar", PING)
    with pytest.raises(SchemaError, match=r"no jar specifies its release in kafka/kafka-version\.properties"):
        read_release([tmp_path])
    with zipfile.ZipFile(jar, "a") as archive:
        archive.writestr("kafka/kafka-version.properties", "commitId=1\nversion=3.10.1-rc2\n")
    release = read_release([tmp_path])
    assert release.number == release_number([jar]) == "3.10"
    assert release_order("3.10") > release_order("3.9")
    assert [message.name for message in release.messages] == ["PingRequest", "PingResponse"]


def test_several_mistakes_are_all_named(tmp_path: Path) -> None:
    wrong = [{"name": "A", "type": "int8", "versions": "x"}, {"name": "Class", "type": "int8", "versions": "0+"}]
    jar = write_jar(tmp_path / "kafka-a.jar", changed(PING, validVersions="3-0"), changed(PONG, fields=wrong))
    with pytest.raises(SchemaError) as caught:
        read_jars([jar])
    assert [str(problem).partition(".json:")[2] for problem in caught.value.problems] == [
        "10: PingRequest: validVersions: version range 3-0 is reversed",
        "12: PingResponse: field A: versions: 'x' is not a version range such as 3, 0-4, 2+ or none",
        "14: PingResponse: field Class: 'class' is a Python keyword",
    ]


ODDITIES = """\
// a comment, "with quotes
{
  "name": "OddRequest", // a comment after a value
  "type": "request", "apiKey": "901", /* over
  two lines */ "listeners": ["zkBroker", "controller", "broker"],
  "validVersions": "0-1", "flexibleVersions": "1+",
  "fields": [
    {"name": "Url", "type": "string", "versions": "0+", "default": "http://x/*y*/",
     "ignorable": "true", "versions": "1+", "about": "no // comment"},
    {"name": "Rack", "type": "string", "versions": "1+", "taggedVersions": "1+", "tag": "0"}
  ]}
]
}
"""


def test_oddities_of_older_releases(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "kafka-old.jar", "w") as archive:
        archive.writestr("common/message/OddRequest.json", ODDITIES)
    (odd,) = read_jars([tmp_path / "kafka-old.jar"])
    assert (odd.key, odd.listeners) == (901, ("broker", "controller"))
    url, rack = odd.fields
    assert (url.default, url.ignorable, str(url.versions), rack.tag) == ("http://x/*y*/", True, "1+", 0)


def test_records_of_topics_before_they_had_types(tmp_path: Path) -> None:
    field = {"name": "Group", "type": "string", "versions": "2"}
    key = {"type": "data", "name": "VisitKey", "validVersions": "2", "fields": [field]}
    value = {"type": "data", "name": "VisitValue", "validVersions": "0-3", "fields": []}
    lonely = {"type": "data", "name": "HouseKey", "validVersions": "0", "fields": []}
    others = [{**lonely, "name": name} for name in ("GardenValue", "Visit")]
    found = read_jars([write_jar(tmp_path / "kafka-a.jar", key, value, lonely, *others)])
    assert [(message.name, message.kind, message.key, str(message.versions)) for message in found] == [
        ("GardenValue", "data", None, "0"),
        ("HouseKey", "data", None, "0"),
        ("Visit", "data", None, "0"),
        ("VisitKey", "coordinator-key", 2, "0"),
        ("VisitValue", "coordinator-value", 2, "0-3"),
    ]
    assert 0 in found[3].fields[0].versions


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty file"),
        (b"[]", "a schema must be a mapping"),
        (b"\x00\xff", "not UTF-8"),
        (b"{" * 100, "a key must be a single word"),
        (b'{"name": ' + b"[" * 100, "mappings and lists are nested more than 64 levels deep"),
        (b'{"name": 7}', "name: expected text, got 7"),
        (b'{"name": "A", "type": "poem", "validVersions": "0"}', "type: unknown type 'poem'; expected one of request"),
        (b'{"name": "A", "type": "data", "validVersions": "0", "fields": 3}', "fields: expected a list, got 3"),
        (b'{"name": "A", "type": "data", "validVersions": "0", "fields": [3]}', "fields: expected a mapping, got 3"),
        (
            b'{"name": "A", "type": "data", "apiKey": "many", "validVersions": "0"}',
            "apiKey: expected an integer, got 'many'",
        ),
        (b'{"name": "A", "type": "data", "latestVersionUnstable": "maybe"}', "expected true or false, got 'maybe'"),
        (b"{" + b" " * (1 << 20) + b"}", "larger than 1048576 bytes"),
    ],
)
def test_content_that_is_no_definition(tmp_path: Path, content: bytes, reason: str) -> None:
    with zipfile.ZipFile(tmp_path / "kafka-a.jar", "w") as archive:
        archive.writestr("common/message/A.json", content)
    with pytest.raises(SchemaError, match=r"kafka-a\.jar!common/message/A\.json") as caught:
        read_jars([tmp_path])
    assert reason in str(caught.value)


@pytest.mark.parametrize("start", [b"", b'{"name": '])
@pytest.mark.parametrize("bracket", [b"{", b"["])
def test_content_that_is_nested_without_end(tmp_path: Path, start: bytes, bracket: bytes) -> None:
    """Endless nesting is refused by libyaml, which has a limit in later versions, or by the reader on top of it."""
    with zipfile.ZipFile(tmp_path / "kafka-a.jar", "w") as archive:
        archive.writestr("common/message/A.json", start + bracket * 100_000)
    with pytest.raises(SchemaError, match=r"kafka-a\.jar!common/message/A\.json:1: "):
        read_jars([tmp_path])


@pytest.mark.parametrize("start", ["//", "/*", '"', "/"])
def test_comments_take_time_in_proportion(tmp_path: Path, start: str) -> None:
    with zipfile.ZipFile(tmp_path / "kafka-a.jar", "w") as archive:
        archive.writestr("common/message/A.json", start * (400_000 // len(start)))
    began = time.process_time()
    with pytest.raises(SchemaError):
        read_jars([tmp_path])
    assert time.process_time() - began < 5


def test_damaged_jar(tmp_path: Path) -> None:
    content = bytearray(write_jar(tmp_path / "kafka-a.jar", PING).read_bytes())
    content[len(content) // 4] ^= 0xFF
    (tmp_path / "kafka-a.jar").write_bytes(content)
    with pytest.raises(SchemaError, match="not a readable jar: Bad CRC-32"):
        read_jars([tmp_path])


def test_no_jar_and_no_definitions(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="no such jar or folder"):
        read_jars([tmp_path / "missing.jar"])
    (tmp_path / "text.jar").write_text("no zip")
    with pytest.raises(SchemaError, match="not a readable jar"):
        read_jars([tmp_path / "text.jar"])
    with pytest.raises(SchemaError, match="no message definitions"):
        read_jars([write_jar(tmp_path / "kafka-empty.jar")])
