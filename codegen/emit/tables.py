"""Write the modules generated from tables: error codes, enumerations, the list of APIs, the registry of messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from kafkawire.codegen.emit.messages import module_name, removed_text
from kafkawire.codegen.emit.source import comment, docstring_text, header, lazy_imports, lazy_names, literal
from kafkawire.codegen.spec import ApiFile, MessageSpec, SchemaFile, snake_case
from kafkawire.codegen.tables import Constant, Enumeration, ErrorSpec

__all__ = ["emit_apis", "emit_enumerations", "emit_errors", "emit_registry", "emit_tables_package"]

#: The names that the module of error codes defines.
_ERROR_NAMES = ["FATAL", "INVALID_METADATA", "RETRIABLE", "ErrorCode"]


def emit_errors(errors: Iterable[ErrorSpec], digest: str) -> str:
    """Return the module of error codes."""
    errors = tuple(errors)
    lines = [
        *header("errors.yaml", digest),
        '"""Error codes of the protocol, and how a client may react to them."""',
        "",
        "from __future__ import annotations",
        "",
        "from enum import IntEnum",
        "",
        f"__all__ = {json.dumps(_ERROR_NAMES)}",
        "",
        "",
        "class ErrorCode(IntEnum):",
        '    """The number in a field named `error_code`."""',
        "",
    ]
    for error in errors:
        lines += comment(error.about, "    ")
        lines.append(f"    {error.name} = {error.code}")
    lines.append("")
    for name, about in (
        ("retriable", "The same request may succeed later."),
        ("invalid_metadata", "Refresh the metadata before the next attempt."),
        ("fatal", "The client that received it cannot continue."),
    ):
        members = [error.name for error in errors if getattr(error, name)]
        lines += ["", f"#: {about}", f"{name.upper()} = frozenset(", "    {"]
        lines += [f"        ErrorCode.{member}," for member in members]
        lines += ["    }", ")"]
    return "\n".join(lines) + "\n"


def emit_enumerations(
    enumerations: Iterable[Enumeration], constants: Iterable[Constant], digest: str
) -> dict[Path, str]:
    """Return the package of enumerations and constants, keyed by path, with a module for each enumeration.

    Creating an `IntEnum` takes longer than loading a module, and programs need only a few enumerations.
    """
    enumerations, constants = tuple(enumerations), tuple(constants)
    modules = {item.name: snake_case(item.name) for item in sorted(enumerations, key=lambda item: item.name)}
    lines = [
        *header("enumerations.yaml", digest),
        '"""The numbers in fields of messages, and the values that mean "none"."""',
        "",
        *lazy_imports(modules),
        "",
        "__all__ = [",
        *(f"    {json.dumps(name)}," for name in [*sorted(item.name for item in constants), *modules]),
        "]",
        "",
    ]
    for constant in constants:
        lines += [*comment(constant.about), f"{constant.name}: Final = {_value(constant.value)}"]
    lines += ["", *lazy_names(modules, "The module, below this package, of each enumeration.")]
    package = {Path(f"{modules[item.name]}.py"): _enumeration(item, digest) for item in enumerations}
    return {Path("__init__.py"): "\n".join(lines) + "\n", **package}


def _enumeration(enumeration: Enumeration, digest: str) -> str:
    """Return the module of one enumeration."""
    about = docstring_text(enumeration.about[0].upper() + enumeration.about[1:])
    lines = [
        *header("enumerations.yaml", digest),
        f'"""{about}."""',
        "",
        "from enum import IntEnum",
        "",
        f"__all__ = [{json.dumps(enumeration.name)}]",
        "",
        "",
        f"class {enumeration.name}(IntEnum):",
        f'    """{about}."""',
        "",
        *(f"    {name} = {value}" for name, value in enumeration.values.items()),
    ]
    return "\n".join(lines) + "\n"


def _value(value: int | str) -> str:
    return literal(value) if isinstance(value, str) else str(value)


def emit_apis(files: Iterable[SchemaFile], headers: Mapping[str, MessageSpec], digest: str) -> str:
    """Return the module that lists every API with its messages, versions and headers.

    Args:
        files: the schema files; only those of APIs are used.
        headers: `RequestHeader` and `ResponseHeader`.
        digest: SHA-256 of all schemas, in hexadecimal.
    """
    # Of two APIs with the same key, the current one comes first, since the key now bears its name.
    found = (file for file in files if isinstance(file, ApiFile))
    apis = sorted(found, key=lambda file: (file.request.key or 0, not file.request.versions))
    named = {file.request.key: file for file in reversed(apis)}
    removed = [api for api in apis if api.request.known and not api.request.versions and named[api.request.key] is api]
    lines = [
        *header("messages/ and headers.yaml", digest),
        '"""Every API: its key, its messages, their versions and their header versions."""',
        "",
        "from __future__ import annotations",
        "",
        "from enum import IntEnum",
        "from typing import Final",
        "",
        "from kafkawire.sdk.protocol.schema import Api",
        "from kafkawire.sdk.protocol.versions import VersionRange as V",
        "",
        '__all__ = ["APIS", "KNOWN_APIS", "REMOVED_APIS", "ApiKey"]',
        "",
        "",
        "class ApiKey(IntEnum):",
        '    """The number at the start of every request."""',
        "",
        *(f"    {snake_case(api.name).upper()} = {api.request.key}" for api in apis if named[api.request.key] is api),
        "",
        "",
        "#: The package of the messages, next to this one.",
        "_MESSAGES: Final = f\"{__name__.removesuffix('tables.apis')}messages\"",
        "",
        "#: The APIs with at least one current version, in order of their keys.",
        "APIS = {",
        *(f"    {line}" for api in apis if api.request.versions for line in _api(api, headers)),
        "}",
        "",
        "#: The APIs without a current version whose key has not been reused.",
        *_removed_apis(removed, headers),
        "",
        "#: All of these: the APIs that can be read and written, though not all of them are served.",
        "KNOWN_APIS = {**APIS, **REMOVED_APIS}",
    ]
    return "\n".join(lines) + "\n"


def _removed_apis(apis: Sequence[ApiFile], headers: Mapping[str, MessageSpec]) -> Iterator[str]:
    opening = "REMOVED_APIS: dict[ApiKey, Api] = {"
    if not apis:  # on one line, as a formatter would write it
        yield opening + "}"
        return
    yield opening
    yield from (f"    {line}" for api in apis for line in _api(api, headers))
    yield "}"


def _api(api: ApiFile, headers: Mapping[str, MessageSpec]) -> Iterator[str]:
    request = api.request
    flexible = request.flexible & request.known
    key = f"ApiKey.{snake_case(api.name).upper()}"
    yield f"{key}: Api("
    yield f"    {json.dumps(api.name)},"
    yield f"    {key},"
    yield f"    versions=V({request.versions.first}, {request.versions.last}),"
    yield f"    flexible={f'V({flexible.first}, {flexible.last})' if flexible else None},"
    yield f"    request_headers={api.request_headers(headers)},"
    yield f"    response_headers={api.response_headers(headers)},"
    listeners = ", ".join(map(json.dumps, request.listeners))
    yield f"    listeners=({listeners}{',' if len(request.listeners) == 1 else ''}),"
    yield "    package=_MESSAGES,"
    if request.unstable:
        yield "    unstable=True,"
    if request.removed:
        yield f"    removed={removed_text(request)},"
    if api.first_request_header is not None:
        yield f"    first_request_header={api.first_request_header},"
    yield "),"


def emit_registry(files: Mapping[Path, SchemaFile], digest: str) -> str:
    """Return the package of all messages, which loads each message's module on first use."""
    modules = {
        message.name: module_name(path) for path, file in files.items() for message in file.messages if message.known
    }
    modules = dict(sorted(modules.items()))
    lines = [
        *header("", digest),
        '"""Every message of the protocol, one module per schema file, loaded on first use."""',
        "",
        *lazy_imports(modules),
        "",
        '__all__ = ["MODULES"]',
        "",
        *lazy_names(modules, "The module, below this package, of each message."),
    ]
    return "\n".join(lines) + "\n"


def emit_tables_package(errors: bool, digest: str) -> str:
    """Return the package of tables, which loads the error codes on first use.

    Args:
        errors: whether there are error codes.
        digest: SHA-256 of all schemas, in hexadecimal.
    """
    lines = [*header("", digest), '"""Generated tables: APIs, error codes, enumerations, record formats."""']
    if errors:
        modules = dict.fromkeys(_ERROR_NAMES, "error_codes")
        lines += [
            "",
            *lazy_imports(modules),
            "",
            f"__all__ = {json.dumps(_ERROR_NAMES)}",
            "",
            *lazy_names(modules, "The module, below this package, of each name."),
        ]
    return "\n".join(lines) + "\n"
