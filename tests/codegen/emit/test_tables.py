"""The generated tables equal the tables in the schemas.

Method: run each emitter on a small table, execute its text, and check the result. `test_parity.py` tests that the
project's tables agree with Kafka's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from kafkawire.codegen.emit.tables import emit_apis, emit_enumerations, emit_errors, emit_registry, emit_tables_package
from kafkawire.codegen.spec import ApiFile, MessageSpec, Removal, SchemaFile, SingleFile
from kafkawire.codegen.tables import Constant, Enumeration, ErrorSpec
from kafkawire.codegen.versions import NONE, Versions


def run(text: str, loaded_later: Iterable[str] = ()) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "own.tables.apis"}
    exec(compile(text, "generated", "exec"), namespace)
    assert max(map(len, text.split("\n"))) <= 120
    assert {name for name in namespace["__all__"] if name not in namespace} == set(loaded_later)
    return namespace


def message(
    name: str, kind: str, key: int | None, versions: Versions, flexible: Versions = NONE, **rest: Any
) -> MessageSpec:
    return MessageSpec(name, kind, key, versions, flexible, **rest)


def api(name: str, key: int, versions: Versions, flexible: Versions, **rest: Any) -> ApiFile:
    request = message(f"{name}Request", "request", key, versions, flexible, listeners=("broker",), **rest)
    return ApiFile(name, request, message(f"{name}Response", "response", key, versions, flexible))


HEADERS = SingleFile(
    (
        message("RequestHeader", "header", None, Versions(1, 2), Versions(2, 2)),
        message("ResponseHeader", "header", None, Versions(0, 1), Versions(1, 1)),
    )
)
HEADERS_BY_NAME = {header.name: header for header in HEADERS.messages}


def test_errors() -> None:
    found = run(
        emit_errors([ErrorSpec(-1, "BAD", fatal=True, about="It is bad."), ErrorSpec(3, "LATER", retriable=True)], "")
    )
    code = found["ErrorCode"]
    assert list(code) == [code.BAD, code.LATER]
    assert (code.BAD, code.LATER) == (-1, 3)
    assert (found["RETRIABLE"], found["FATAL"], found["INVALID_METADATA"]) == ({code.LATER}, {code.BAD}, frozenset())


def test_enumerations() -> None:
    tree = emit_enumerations(
        [Enumeration("BestColour", "what it looks like", {"RED": 1, "BLUE": 2})],
        [Constant("NO_NAME", "", "nobody"), Constant("NONE", -1, "nothing")],
        "",
    )
    assert sorted(map(str, tree)) == ["__init__.py", "best_colour.py"]
    colour = run(tree[Path("best_colour.py")])["BestColour"]
    assert colour.BLUE == 2
    assert colour.__doc__ == "What it looks like."
    package = run(tree[Path("__init__.py")], {"BestColour"})
    assert (package["NO_NAME"], package["NONE"]) == ("", -1)
    assert package["MODULES"] == {"BestColour": "best_colour"}


def test_apis() -> None:
    files: list[SchemaFile] = [
        api("Ping", 7, Versions(0, 3), Versions(2, 32767), unstable=True),
        api("OldThing", 4, NONE, NONE),
        api("Pong", 5, Versions(1, 1), NONE),
    ]
    found = run(emit_apis(files, HEADERS_BY_NAME, ""))
    key, apis = found["ApiKey"], found["APIS"]
    assert list(key) == [key.OLD_THING, key.PONG, key.PING]
    assert list(apis) == [key.PONG, key.PING]
    ping, pong = apis[key.PING], apis[key.PONG]
    assert (ping.name, ping.versions, ping.flexible, ping.listeners, ping.unstable) == (
        "Ping",
        (0, 3),
        (2, 3),
        ("broker",),
        True,
    )
    assert (pong.flexible, pong.unstable) == (None, False)
    assert {api.package for api in apis.values()} == {"own.messages"}
    assert [ping.request_header_version(version) for version in (1, 2)] == [1, 2]
    assert [ping.response_header_version(version) for version in (1, 2)] == [0, 1]


def test_removed_versions() -> None:
    removed = (Removal("3.9", Versions(0, 0)), Removal("4.0", Versions(1, 2)))
    ping, old, new = (
        api("Ping", 7, Versions(3, 4), Versions(2, 32767)),
        api("OldThing", 4, NONE, Versions(2, 32767)),
        api("AskPing", 7, NONE, NONE),
    )
    files: list[SchemaFile] = []
    for file in (new, ping, old):
        request = replace(file.request, removed=removed)
        files.append(replace(file, request=request, first_request_header=0 if file is old else None))
    found = run(emit_apis(files, HEADERS_BY_NAME, ""))
    key, apis, gone = found["ApiKey"], found["APIS"], found["REMOVED_APIS"]
    assert [member.name for member in key] == ["OLD_THING", "PING"]
    assert "ASK_PING" not in key.__members__
    assert (list(apis), list(gone)) == ([key.PING], [key.OLD_THING])
    assert (apis[key.PING].versions, apis[key.PING].known_versions, apis[key.PING].flexible) == ((3, 4), (0, 4), (2, 4))
    thing = gone[key.OLD_THING]
    assert (bool(thing.versions), thing.known_versions, thing.flexible) == (False, (0, 2), (2, 2))
    assert [thing.request_header_version(version) for version in (0, 1, 2)] == [0, 1, 2]


def test_special_headers() -> None:
    ping = api("Ping", 7, Versions(0, 3), Versions(2, 32767))
    special = ApiFile("Ping", ping.request, ping.response, response_header=0, request_header=1)
    found = run(emit_apis([special], HEADERS_BY_NAME, ""))
    entry = found["APIS"][found["ApiKey"].PING]
    assert [entry.response_header_version(version) for version in (1, 3)] == [0, 0]
    assert [entry.request_header_version(version) for version in (1, 3)] == [1, 1]


def test_registry() -> None:
    files: dict[Path, SchemaFile] = {
        Path("headers.yaml"): HEADERS,
        Path("messages/ping.yaml"): api("Ping", 7, Versions(0, 3), NONE),
        Path("messages/gone.yaml"): api("Gone", 8, NONE, NONE),
    }
    assert run(emit_registry(files, ""))["MODULES"] == {
        "PingRequest": "ping",
        "PingResponse": "ping",
        "RequestHeader": "headers",
        "ResponseHeader": "headers",
    }


def test_package_of_tables() -> None:
    names = {"FATAL", "INVALID_METADATA", "RETRIABLE", "ErrorCode"}
    assert run(emit_tables_package(True, ""), names)["MODULES"] == dict.fromkeys(names, "error_codes")
    assert "import" not in emit_tables_package(False, "")
