"""Check that the files in a folder of schemas fit together: names, keys, modules, headers, topics.

`load.py` calls this after reading all files; `consistency.py` checks each message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from kafkawire.codegen.located import Located, Problem
from kafkawire.codegen.names import field_problem
from kafkawire.codegen.spec import ApiFile, MessageSpec, SchemaFile, topic_of

__all__ = ["folder_problems"]


def folder_problems(
    folder: Path,
    files: Mapping[Path, SchemaFile],
    documents: Mapping[Path, list[Located]],
    headers: Mapping[str, MessageSpec],
) -> Iterator[Problem]:
    """Yield the conflicts between files.

    Args:
        folder: the folder of the files.
        files: the content of each file, keyed by path relative to `folder`.
        documents: the documents in each file, keyed by path.
        headers: `RequestHeader` and `ResponseHeader`.
    """
    yield from _path_problems(folder, files)
    yield from _clashes(folder, files)
    for path, file in files.items():
        if isinstance(file, ApiFile):
            yield from _header_problems(documents[folder / path][0], file, headers)
        yield from (
            Problem(
                folder / path,
                message.line,
                f"{message.name}: the folder of a metadata record must be named after the record's topic, but this "
                f"file is not in a folder: move it, for example to lamps/{path.name} for __lamps",
            )
            for message in file.messages
            if message.kind == "metadata" and message.versions and not topic_of(path, file)
        )


def _path_problems(folder: Path, files: Iterable[Path]) -> Iterator[Problem]:
    """Yield a problem for each path that cannot become a module."""
    modules: dict[tuple[str, ...], Path] = {}
    packages: dict[tuple[str, ...], Path] = {}
    for path in files:
        parts = path.with_suffix("").parts
        for reason in filter(None, map(field_problem, parts)):
            yield Problem(folder / path, 0, f"the path is not valid as a module name: {reason}")
        module = parts[1:] if parts[0] == "messages" else parts
        packages.update({module[:end]: path for end in range(1, len(module))})
        if (other := modules.setdefault(module, path)) is not path:
            yield Problem(folder / path, 0, f"the module name {'.'.join(module)} is already used by {other}")
    for module in modules.keys() & packages.keys():
        name, other = ".".join(module), packages[module]
        yield Problem(folder / modules[module], 0, f"the module name {name} is already used for the package of {other}")


def _clashes(folder: Path, files: Mapping[Path, SchemaFile]) -> Iterator[Problem]:
    """Yield a problem for each name or key that two messages share."""
    names: dict[str, Path] = {}
    keys: dict[tuple[str, Path, int], str] = {}
    for path, file in files.items():
        for message in file.messages:
            if message.name in names:
                yield Problem(
                    folder / path, message.line, f"{message.name} is already defined in {names[message.name]}"
                )
            names[message.name] = path
            # For example, ListConfigResources reuses the key of ListClientMetricsResources.
            taken_over = message.removed and not message.versions
            if message.key is not None and not taken_over:
                other = keys.setdefault((message.kind, path.parent, message.key), message.name)
                if other != message.name:
                    yield Problem(
                        folder / path, message.line, f"{message.name}: key {message.key} is already used by {other}"
                    )


def _header_problems(source: Located, file: ApiFile, headers: Mapping[str, MessageSpec]) -> Iterator[Problem]:
    """Yield a problem for each header version that does not exist."""
    for key, version, name in (
        ("request_header", file.request_header, "RequestHeader"),
        ("first_request_header", file.first_request_header, "RequestHeader"),
        ("response_header", file.response_header, "ResponseHeader"),
    ):
        known = headers[name].known
        if version is not None and version not in known:
            yield source.problem(f"{file.name}: {key}: {version} is not a version of {name}, which has {known}", key)
