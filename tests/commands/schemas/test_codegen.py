"""Every command does and prints its work, and exits with 0, with 1 for "no", or with 2 and one line for wrong usage.

Method: run the commands in this process on small folders, and check the relevant texts and exit codes.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kafkawire.codegen import SCHEMAS
from kafkawire.codegen.load import load_folder
from kafkawire.codegen.state import load_state
from kafkawire.commands.schemas import codegen as commands
from kafkawire.commands.schemas.codegen import app
from kafkawire.commands.terminal import run_app
from tests.codegen.jars import PING, PONG, write_jar


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """Return the jar of a release."""
    return write_jar(tmp_path / "kafka-clients-1.jar", PING, PONG)


@pytest.fixture
def schemas(tmp_path: Path, release: Path) -> Path:
    """Return the folder with the release's schemas."""
    run("import", release, "--schemas", tmp_path / "schemas")
    return tmp_path / "schemas"


def run(*arguments: object, code: int = 0) -> str:
    """Run a command, and return its output from both streams."""
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == code, result.output
    return result.output


def test_import(tmp_path: Path, release: Path) -> None:
    folder = tmp_path / "new" / "schemas"
    output = run("import", release, "--schemas", folder)
    assert "added    messages/ping.yaml\n2 messages read, 1 file changed\n" in output
    assert "2 messages without a description yet: PingRequest, PingResponse" in output
    path = folder / "messages" / "ping.yaml"
    path.write_text(path.read_text().replace("\nrequest:", "about: Hello.\n\nrequest:"))
    assert run("import", release, "--schemas", folder) == "2 messages read, 0 files changed\n"


def test_import_keeps_what_the_jars_do_not_have(tmp_path: Path, schemas: Path) -> None:
    other = [
        {**definition, "name": definition["name"].replace("Ping", "Peng"), "apiKey": 901} for definition in (PING, PONG)
    ]
    jar = write_jar(tmp_path / "kafka-clients-2.jar", *other)
    output = run("import", jar, "--schemas", schemas)
    assert "added    messages/peng.yaml\nkept     messages/ping.yaml\n2 messages read, 1 file changed\n" in output
    assert "kept 1 file missing from these jars; use --remove to remove them" in output
    assert "removed  messages/ping.yaml\n2 messages read, 1 file changed" in run(
        "import", jar, "--schemas", schemas, "--remove"
    )
    assert [path.name for path in schemas.rglob("*")] == ["messages", "peng.yaml"]


def test_import_of_history(tmp_path: Path, schemas: Path) -> None:
    constant = '{name: KAFKA_RELEASE, value: "5.0.0", about: the release}'
    (schemas / "enumerations.yaml").write_text(f"enumerations: []\nconstants:\n  - {constant}\n")
    path = schemas / "messages" / "ping.yaml"
    path.write_text(path.read_text().replace("versions: 0-3", "versions: 1-3").replace("  deprecated: 0\n", ""))
    older, between = tmp_path / "kafka-3.9.jar", tmp_path / "kafka-4.0.jar"
    for jar, number, first in ((older, "3.9.1", 0), (between, "4.0.0", 1)):
        versions = {"validVersions": f"{first}-3", "deprecatedVersions": "none"}
        write_jar(jar, {**PING, **versions}, {**PONG, **versions})
        with zipfile.ZipFile(jar, "a") as archive:
            archive.writestr("kafka/kafka-version.properties", f"commitId=0\nversion={number}\n")
    options = ("--history", older, "--later", between, "--schemas", schemas)
    assert run("import", *options).startswith("changed  messages/ping.yaml\n2 messages read, 1 file changed\n")
    assert path.read_text().count('removed: {"4.0": 0}') == 2
    assert run("import", *options).startswith("2 messages read, 0 files changed\n")
    assert "PingRequest   request   900  1-3       0 in 4.0  2-3" in run("list", "--schemas", schemas)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--later", "b.jar"), "--later requires --history"),
        (("--history", "--remove"), "--history cannot be combined with"),
        (("--history", "--tables", "t"), "--history cannot be combined with"),
        (("--history", "--forget"), "--history cannot be combined with"),
    ],
)
def test_options_of_history(options: tuple[str, ...], reason: str) -> None:
    assert reason in run("import", "a.jar", *options, code=2)


def test_import_with_tables(tmp_path: Path, release: Path) -> None:
    tables = tmp_path / "tables"
    tables.mkdir()
    (tables / "error_codes.json").write_text(
        '[{"name": "LATER", "code": 3, "retriable": true, "invalid_metadata": false}]'
    )
    output = run("import", release, "--schemas", tmp_path / "new", "--tables", tables)
    assert "added    messages/ping.yaml\nadded    errors.yaml\n" in output
    (tables / "error_codes.json").write_text("[3]")
    newer = write_jar(tmp_path / "kafka-2.jar", {**PING, "validVersions": "0-4"}, {**PONG, "validVersions": "0-4"})
    before = (tmp_path / "new" / "messages" / "ping.yaml").read_text()
    output = run("import", newer, "--schemas", tmp_path / "new", "--tables", tables, code=1)
    assert output.startswith(f"error: {tables / 'error_codes.json'}: not a valid table: ")
    assert (tmp_path / "new" / "messages" / "ping.yaml").read_text() == before


def test_import_of_nothing(tmp_path: Path) -> None:
    output = run("import", tmp_path / "no.jar", "--schemas", tmp_path, code=1)
    assert output == f"error: {tmp_path / 'no.jar'}: no such jar or folder\n"


def test_generate_and_check(tmp_path: Path, schemas: Path) -> None:
    options = ("--schemas", schemas, "--out", tmp_path / "out")
    assert "missing  messages/ping.py" in run("check", *options, code=1)
    assert run("generate", *options) == "4 files, 4 changed\n"
    assert run("check", *options) == "4 files match their schemas\n"
    path = tmp_path / "out" / "messages" / "ping.py"
    path.write_text(path.read_text() + "changed = True\n")
    output = run("check", *options, code=1)
    advice = "change the schemas, not the generated code, and then run `kafkawire codegen generate`"
    assert output == f"changed  messages/ping.py\n{advice}\n"
    assert run("generate", *options) == "4 files, 1 changed\n"


@pytest.mark.parametrize("command", ["generate", "check"])
def test_code_of_other_schemas_never_goes_into_our_own_package(
    tmp_path: Path,
    schemas: Path,
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ours = tmp_path / "ours"
    monkeypatch.setattr(commands, "OUT", ours)
    run("generate", "--schemas", schemas, "--out", ours)
    files = {path: path.read_bytes() for path in ours.rglob("*.py")}
    (schemas / "messages" / "ping.yaml").rename(schemas / "messages" / "pong.yaml")
    assert run_app(app, "codegen", [command, "--schemas", str(schemas)]) == 2
    assert "so --out is required" in capsys.readouterr().err  # on one line, however long the path is
    assert {path: path.read_bytes() for path in ours.rglob("*.py")} == files


def test_our_own_schemas_by_another_path(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(SCHEMAS)
    assert run("check", "--schemas", tmp_path / "link") == run("check")


def test_what_was_not_generated_stays(tmp_path: Path, schemas: Path) -> None:
    out = tmp_path / "package"
    (out / "messages").mkdir(parents=True)
    for name in ("ping.py", "letters.py"):
        (out / "messages" / name).write_text("by = 'hand'\n")
    output = run("generate", "--schemas", schemas, "--out", out, code=1)
    assert output.startswith(f"error: {out / 'messages' / 'ping.py'} and 1 more would be replaced or removed")
    assert sorted(path.name for path in out.rglob("*")) == ["letters.py", "messages", "ping.py"]


def test_every_error_of_every_file(tmp_path: Path, schemas: Path) -> None:
    path = schemas / "messages" / "ping.yaml"
    path.write_text(path.read_text().replace("type: uuid", "type: guid").replace("versions: 0-3", "versions: 3-0", 1))
    (schemas / "binary.yaml").write_bytes(b"\x00\xff")
    (schemas / "errors.yaml").write_text("errors:\n  - {name: LATER}\n")
    lines = run("generate", "--schemas", schemas, "--out", tmp_path / "out", code=1).splitlines()
    assert [line.split(": ")[1].partition(":")[0] for line in lines] == [
        str(schemas / name) for name in ("binary.yaml", "messages/ping.yaml", "messages/ping.yaml", "errors.yaml")
    ]
    assert not (tmp_path / "out").exists()


def test_record_formats_of_our_own_need_no_tables(tmp_path: Path, schemas: Path) -> None:
    (schemas / "records").mkdir()
    (schemas / "records" / "parcel.yaml").write_text(
        "record_format: Parcel\nabout: a box\nfields:\n  - {name: weight, type: int32}\n"
    )
    assert run("generate", "--schemas", schemas, "--out", tmp_path / "out") == "4 files, 4 changed\n"
    run("docs", "--schemas", schemas, "--out", tmp_path / "site")
    assert "Parcel" in (tmp_path / "site" / "records.html").read_text()


@pytest.mark.parametrize("command", ["generate", "check", "list", "docs"])
def test_wrong_schema(tmp_path: Path, schemas: Path, command: str) -> None:
    path = schemas / "messages" / "ping.yaml"
    path.write_text(path.read_text().replace("type: uuid", "type: guid"))
    line = path.read_text().split("type: guid")[0].count("\n") + 1
    options = [] if command == "list" else ["--out", tmp_path / "out"]
    output = run(command, "--schemas", schemas, *options, code=1)
    assert output.startswith(f"error: {path}:{line}: PingResponse: field node.id: type: 'guid' is neither one of")
    assert output.count("\n") == 1


def test_diff(tmp_path: Path, release: Path, schemas: Path) -> None:
    changes = {"validVersions": "0-4", "latestVersionUnstable": False}
    newer = write_jar(tmp_path / "kafka-clients-2.jar", {**PING, **changes}, {**PONG, **changes})
    assert run("diff", schemas, release) == "0 changes: 0 compatible, 0 with a note, 0 that break the wire\n"
    assert run("diff", release, newer).splitlines() == [
        "WHERE         VERSIONS  FIELD  CHANGE         VERDICT",
        "PingRequest   3         -      became stable  compatible",
        "PingRequest   4         -      new version    compatible",
        "PingResponse  4         -      new version    compatible",
        "3 changes: 3 compatible, 0 with a note, 0 that break the wire",
    ]
    assert "the newest version was withdrawn  breaks the wire" in run("diff", newer, release, code=1)
    assert "PingRequest" not in run("diff", release, newer, "--verdict", "note")
    assert run("diff", newer, release, "--verdict", "note", code=1).splitlines()[1].split() == (
        ["PingRequest", "3", "-", "is", "unstable", "and", "may", "still", "change", "note"]
    )


@pytest.mark.parametrize(("own_is_first", "change"), [(True, "message removed"), (False, "new message")])
def test_diff_of_own_apis_with_a_release(schemas: Path, own_is_first: bool, change: str) -> None:
    """Messages that the folder does not define are counted, not listed."""
    pair = (schemas, SCHEMAS) if own_is_first else (SCHEMAS, schemas)
    lines = run("diff", *pair).splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["PingRequest", "PingResponse"]
    assert all(change in line for line in lines[1:3])
    assert len(lines) == 5
    count = len(load_state(SCHEMAS).names)
    assert lines[-1] == f"left out: {count} messages not defined in {schemas}"


def test_list(schemas: Path) -> None:
    assert run("list", "--schemas", schemas).splitlines() == [
        "MESSAGE       KIND      KEY  VERSIONS  REMOVED  FLEXIBLE  FILE",
        "PingRequest   request   900  0-3       -        2-3       messages/ping.yaml",
        "PingResponse  response  900  0-3       -        2-3       messages/ping.yaml",
    ]
    assert "PingRequest" not in run("list", "RESPONSE", "--schemas", schemas)
    assert "PingResponse" not in run("list", "--kind", "request", "--schemas", schemas)
    assert run("list", "pong", "--schemas", schemas, code=1).startswith("error: no such message")


def test_own_schemas_are_the_default() -> None:
    assert "messages/fetch.yaml" in run("list", "FetchRequest")


def test_docs(tmp_path: Path, schemas: Path) -> None:
    output = run("docs", "--schemas", schemas, "--out", tmp_path / "site")
    assert output == f"{len(load_folder(schemas)) + 5} files; open {tmp_path / 'site' / 'index.html'}\n"
    assert "PingRequest" in (tmp_path / "site" / "messages" / "ping.html").read_text()
