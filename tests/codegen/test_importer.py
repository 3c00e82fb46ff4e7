"""An import copies a release's facts into a folder and keeps the existing texts.

Method: import a made-up release into an empty folder, then import it again, then a later state of it. If the jars of
Kafka 4.3.0 are available, import them into a copy of the project's schemas, which must not change.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from kafkawire.codegen import SCHEMAS
from kafkawire.codegen.change import Verdict
from kafkawire.codegen.definitions import Release, read_jars, read_release
from kafkawire.codegen.evolution import compare
from kafkawire.codegen.importer import ImportResult, arrange, import_history, import_release
from kafkawire.codegen.load import load_folder
from kafkawire.codegen.located import SchemaError
from kafkawire.codegen.spec import ApiFile
from kafkawire.codegen.state import State, load_state
from tests.codegen.jars import PING, PONG, write_jar
from tests.needs import Need

CACHE = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "kafkawire"
RELEASE = CACHE / "kafka-4.3.0"
OLDER_RELEASE = CACHE / "kafka-4.1.1"
HISTORY = CACHE / "kafka-3.9.1"


PENG = [{**definition, "name": definition["name"].replace("Ping", "Peng")} for definition in (PING, PONG)]


def contents(folder: Path) -> dict[Path, str]:
    """Return the text of every file below a folder."""
    return {path.relative_to(folder): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_where_messages_belong() -> None:
    files = {path.as_posix(): file for path, file in load_folder(SCHEMAS).items()}
    messages = [message for file in files.values() for message in file.messages]
    arranged = {
        path.as_posix(): [message.name for message in file.messages] for path, file in arrange(messages).items()
    }
    assert arranged == {path: [message.name for message in file.messages] for path, file in files.items()}


def imported(
    tmp_path: Path, *definitions: dict[str, object], remove: bool = False, release: str | None = None
) -> ImportResult:
    messages = read_jars([write_jar(tmp_path / "kafka-clients.jar", *definitions)])
    (tmp_path / "schemas").mkdir(exist_ok=True)
    return import_release(messages, tmp_path / "schemas", remove=remove, release=release)


def test_import_and_again(tmp_path: Path) -> None:
    ping = Path("messages/ping.yaml")
    assert imported(tmp_path, PING, PONG) == ImportResult(added=(ping,), undescribed=("PingRequest", "PingResponse"))
    assert imported(tmp_path, PING, PONG) == ImportResult(undescribed=("PingRequest", "PingResponse"))


def test_words_stay(tmp_path: Path) -> None:
    imported(tmp_path, PING, PONG)
    path = tmp_path / "schemas" / "messages" / "ping.yaml"
    text = path.read_text()
    for old, new in (
        ("key: 900\n", "key: 900\n"),
        ("listeners: [broker, controller]\n", "listeners: [broker, controller]\nabout: Is anybody there?\n"),
        ("request:\n", "request:\n  about: The question.\n"),
        ("entity: group_id}", "entity: group_id, about: who asks}"),
        ("    - name: Item\n", "    - name: Item\n      about: One of them.\n"),
        ("map_key: true}", "map_key: true, about: from 0}"),
        ("type: uuid}", "type: uuid, about: its name}"),
    ):
        assert old in text
        text = text.replace(old, new, 1)
    path.write_text(text)
    assert imported(tmp_path, PING, PONG).changed == ()
    assert imported(tmp_path, {**PING, "validVersions": "0-4"}, {**PONG, "validVersions": "0-4"}).changed
    assert path.read_text() == text.replace("versions: 0-3", "versions: 0-4")


def test_what_a_release_dropped_is_removed(tmp_path: Path) -> None:
    imported(tmp_path, PING, PONG)
    ping, peng = Path("messages/ping.yaml"), Path("messages/peng.yaml")
    result = imported(tmp_path, *PENG, remove=True)
    assert (result.added, result.removed, result.kept) == ((peng,), (ping,), ())
    assert contents(tmp_path / "schemas").keys() == {peng}


def test_files_are_removed_on_request_only(tmp_path: Path) -> None:
    imported(tmp_path, PING, PONG)
    before = contents(tmp_path / "schemas")
    result = import_release([], tmp_path / "schemas")
    assert (result.removed, result.kept) == ((), (Path("messages/ping.yaml"),))
    assert contents(tmp_path / "schemas") == before


def test_what_is_not_among_the_definitions_stays(tmp_path: Path) -> None:
    imported(tmp_path, PING, PONG)
    renumbered = [{**definition, "apiKey": 901} for definition in PENG]
    result = imported(tmp_path, *renumbered)
    assert (result.removed, result.kept) == ((), (Path("messages/ping.yaml"),))
    assert imported(tmp_path, *renumbered, PING, PONG).kept == ()


def test_what_stays_must_fit(tmp_path: Path) -> None:
    imported(tmp_path, PING, PONG)
    before = contents(tmp_path / "schemas")
    with pytest.raises(SchemaError, match="key 900 is already used by PengRequest") as caught:
        imported(tmp_path, *PENG)
    hint = "the definitions lack messages/ping.yaml; use --remove to remove these files"
    assert str(caught.value.problems[-1]) == f"{tmp_path / 'schemas'}: {hint}"
    assert contents(tmp_path / "schemas") == before


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"validVersions": "0-400"}, "PingRequest: versions: 0-400 exceeds the limit of 128 versions"),
        ({"apiKey": 70_000}, "ping.yaml:3: key: expected -32768 to 32767, got 70000"),
        (
            {"name": "Lonely", "type": "request"},
            "Lonely has no matching LonelyResponse; are all of the release's jars present?",
        ),
    ],
)
def test_nothing_is_written_if_a_definition_is_wrong(tmp_path: Path, wrong: dict[str, object], reason: str) -> None:
    imported(tmp_path, PING, PONG)
    before = contents(tmp_path / "schemas")
    with pytest.raises(SchemaError, match=re.escape(reason)) as caught:
        imported(tmp_path, *PENG, {**PING, **wrong}, PONG)
    assert "--remove" not in str(caught.value)
    assert contents(tmp_path / "schemas") == before


def test_a_full_disk_in_the_middle_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    imported(tmp_path, PING, PONG)
    before = contents(tmp_path / "schemas")
    written = 0
    write_text = Path.write_text

    def fill(path: Path, *arguments: Any, **options: Any) -> int:
        nonlocal written
        written += path.is_relative_to(tmp_path / "schemas")
        if written == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write_text(path, *arguments, **options)

    monkeypatch.setattr(Path, "write_text", fill)
    newer = {"validVersions": "0-4"}
    renumbered = [{**definition, "apiKey": 901} for definition in PENG]
    with pytest.raises(OSError, match="No space left"):
        imported(tmp_path, {**PING, **newer}, {**PONG, **newer}, *renumbered)
    assert written == 2
    assert contents(tmp_path / "schemas") == before


def test_only_one_response_header_is_special(tmp_path: Path) -> None:
    definitions = [
        {**definition, "name": definition["name"].replace("Ping", "ApiVersions")} for definition in (PING, PONG)
    ]
    imported(tmp_path, *definitions)
    (file,) = load_folder(tmp_path / "schemas").values()
    assert isinstance(file, ApiFile)
    assert file.response_header == 0


def test_wrong_schema_is_not_overwritten(tmp_path: Path) -> None:
    imported(tmp_path, PING, PONG)
    path = tmp_path / "schemas" / "messages" / "ping.yaml"
    path.write_text(path.read_text().replace("type: int32", "type: int23"))
    with pytest.raises(SchemaError, match="int23"):
        imported(tmp_path, PING, PONG)


def described(tmp_path: Path, release: str) -> Path:
    """Create a folder of schemas that names its release."""
    folder = tmp_path / "schemas"
    folder.mkdir(exist_ok=True)
    constant = f'{{name: KAFKA_RELEASE, value: "{release}", about: the release}}'
    (folder / "enumerations.yaml").write_text(f"enumerations: []\nconstants:\n  - {constant}\n")
    return folder


def ping(first: int, last: int) -> list[dict[str, Any]]:
    """Return the definitions from a release that has the given versions."""
    changes = {"validVersions": f"{first}-{last}", "deprecatedVersions": "none"}
    return [{**definition, **changes} for definition in (PING, PONG)]


def release(tmp_path: Path, number: str, *definitions: dict[str, Any]) -> Release:
    return Release(
        number, read_jars([write_jar(tmp_path / f"kafka-{number}.jar", *definitions)]) if definitions else []
    )


def test_what_a_release_dropped_stays_known(tmp_path: Path) -> None:
    folder = tmp_path / "schemas"
    imported(tmp_path, *ping(0, 3), release="4.0")
    imported(tmp_path, *ping(1, 3), release="4.1")
    assert imported(tmp_path, *ping(2, 4), release="4.10").changed == (Path("messages/ping.yaml"),)
    (file,) = load_folder(folder).values()
    for message in file.messages:
        assert (str(message.versions), str(message.known)) == ("2-4", "0-4")
        assert [message.removed_in(version) for version in range(5)] == ["4.1", "4.10", None, None, None]
    before = contents(folder)
    assert imported(tmp_path, *ping(2, 4), release="4.10").changed == ()
    assert contents(folder) == before


def test_a_message_that_a_release_dropped_stays_known(tmp_path: Path) -> None:
    imported(tmp_path, *ping(0, 3))
    renamed = [{**definition, "name": definition["name"].replace("Ping", "Peng")} for definition in ping(0, 3)]
    result = imported(tmp_path, *renamed, remove=True, release="4.1")
    assert (result.changed, result.removed) == ((Path("messages/ping.yaml"),), ())
    files = {path.name: file for path, file in load_folder(tmp_path / "schemas").items()}
    request = files["ping.yaml"].messages[0]
    assert (str(request.versions), str(request.known), request.removed_in(3)) == ("none", "0-3", "4.1")
    # The next import does not expect the message, and the message that took over its key does not conflict with it.
    assert imported(tmp_path, *renamed, release="4.2").kept == ()


@pytest.mark.parametrize("release", [None, "4.1"])
def test_what_was_not_removed_by_a_later_release_is_not_kept(tmp_path: Path, release: str | None) -> None:
    """No history is kept for a release without a number, or for one older than the folder's."""
    imported(tmp_path, *ping(0, 3), *ping_named("Peng", 901))
    described(tmp_path, "4.2.0")
    result = imported(tmp_path, *ping(1, 3), remove=True, release=release)
    assert result.removed == (Path("messages/peng.yaml"),)
    (file,) = load_folder(tmp_path / "schemas").values()
    assert [(str(message.versions), message.removed) for message in file.messages] == [("1-3", ())] * 2


def test_history_that_does_not_fit_can_be_left_out(tmp_path: Path) -> None:
    imported(tmp_path, *ping(0, 3))
    before = contents(tmp_path / "schemas")
    fields = [{"name": "GroupId", "type": "int32", "versions": "0+"}]
    definitions = [{**definition, "fields": fields, "commonStructs": []} for definition in ping(1, 3)]
    with pytest.raises(SchemaError, match=r"version 0 cannot be combined with its history \(--forget leaves it out\)"):
        imported(tmp_path, *definitions, release="4.1")
    assert contents(tmp_path / "schemas") == before
    assert imported(tmp_path, *definitions).changed


def test_history(tmp_path: Path) -> None:
    imported(tmp_path, *ping(2, 3))
    folder = described(tmp_path, "4.3.0")
    older = release(tmp_path, "3.9", *ping(0, 3), *ping_named("Peng", 901))
    later = [release(tmp_path, "4.1", *ping(2, 3)), release(tmp_path, "4.0", *ping(1, 3), *ping_named("Peng", 901))]
    result = import_history(older, later, folder)
    assert (result.added, result.changed) == ((Path("messages/peng.yaml"),), (Path("messages/ping.yaml"),))
    peng, known = load_folder(folder).values()
    for message in known.messages:
        assert str(message.versions) == "2-3"
        assert [message.removed_in(version) for version in (0, 1, 2)] == ["4.0", "4.1", None]
    for message in peng.messages:
        assert (str(message.versions), message.listeners) == ("none", ())
        assert [message.removed_in(version) for version in (0, 3)] == ["4.1", "4.1"]
    again = import_history(older, [], folder)
    assert (again.added, again.changed) == ((), ())


def ping_named(name: str, key: int) -> list[dict[str, Any]]:
    return [
        {**definition, "name": definition["name"].replace("Ping", name), "apiKey": key} for definition in ping(0, 3)
    ]


def test_history_without_releases_between(tmp_path: Path) -> None:
    imported(tmp_path, *ping(2, 3))
    folder = described(tmp_path, "4.3.0")
    import_history(release(tmp_path, "3.9", *ping(0, 3)), [], folder)
    (file,) = load_folder(folder).values()
    assert [file.messages[0].removed_in(version) for version in (0, 1)] == ["4.3", "4.3"]


def test_history_needs_the_release_of_the_folder(tmp_path: Path) -> None:
    imported(tmp_path, *ping(2, 3))
    before = contents(tmp_path / "schemas")
    with pytest.raises(SchemaError, match="the constant KAFKA_RELEASE is missing"):
        import_history(release(tmp_path, "3.9", *ping(0, 3)), [], tmp_path / "schemas")
    assert contents(tmp_path / "schemas") == before


@Need("the jars of Kafka 3.9.1 in the cache folder", (HISTORY / ".complete").exists).mark
def test_the_release_that_the_history_is_from_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "schemas"
    shutil.copytree(SCHEMAS, folder)
    older = read_release([HISTORY])
    assert older.number == "3.9"
    assert import_history(older, [], folder) == ImportResult()
    # The versions were made from this release, so none of them has different bytes.
    breaks = [
        (change.subject, str(change.versions))
        for change in compare(State(arrange(older.messages)), load_state(folder))
        if change.verdict is Verdict.BREAKS
    ]
    assert breaks == [("ShareGroupMetadataValue", "0")]  # changed in place (see conformance/history_vectors.py)


@Need("the jars of Kafka 4.3.0 in the cache folder", (RELEASE / ".complete").exists).mark
def test_the_release_that_the_schemas_are_from_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "schemas"
    shutil.copytree(SCHEMAS, folder)
    release = read_release([RELEASE])
    assert import_release(release.messages, folder, release=release.number) == ImportResult()


@Need("the jars of Kafka 4.1.1 in the cache folder", lambda: any(OLDER_RELEASE.glob("kafka-*.jar"))).mark
def test_an_older_release_and_what_came_after_it(tmp_path: Path) -> None:
    result = import_release(read_jars([OLDER_RELEASE]), tmp_path)
    assert (result.changed, result.removed) == ((), ())
    changes = compare(load_state(tmp_path), load_state(SCHEMAS))
    assert {change.verdict for change in changes} == {Verdict.COMPATIBLE, Verdict.NOTE}
    texts = set(map(str, changes))
    assert "ListOffsetsRequest 11: new version (compatible)" in texts
    assert "WriteTxnMarkersRequest 2 markers.transaction_version: added, int8 (compatible)" in texts
    assert "StreamsGroupHeartbeatResponse 0 status: default null became that of the type (note)" in texts
