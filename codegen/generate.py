"""Make the generated tree from a folder of schemas, and compare a tree with it.

A tree is a mapping from relative path to text, so that writing and checking see the same thing. The same schemas give
the same bytes, whatever the machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kafkawire.codegen.emit.messages import emit_messages, module_name
from kafkawire.codegen.emit.records import emit_record_constants, emit_record_formats
from kafkawire.codegen.emit.reference import reference_tree
from kafkawire.codegen.emit.source import header
from kafkawire.codegen.emit.tables import emit_apis, emit_enumerations, emit_errors, emit_registry
from kafkawire.codegen.load import load_folder
from kafkawire.codegen.record_formats import load_record_formats
from kafkawire.codegen.spec import SchemaFile
from kafkawire.codegen.tables import load_enumerations, load_errors

__all__ = ["Drift", "drift", "generated_tree", "reference_of", "write_tree"]

#: Names the folders of a tree that belong to the generator alone: a file there that it would not write is drift.
OWNED_FOLDERS = ("messages", "tables")


@dataclass(frozen=True, slots=True)
class Drift:
    """How a tree on disk differs from the one that its schemas give: relative paths."""

    missing: tuple[Path, ...]
    changed: tuple[Path, ...]
    surplus: tuple[Path, ...]

    def __bool__(self) -> bool:
        return bool(self.missing or self.changed or self.surplus)


def generated_tree(schemas: Path) -> dict[Path, str]:
    """Return every generated file of the protocol package, by path relative to it.

    Args:
        schemas: a folder of schemas, Kafka's or a user's own; tables that are not there are left out.

    Raises:
        SchemaError: a schema is wrong.
    """
    files = load_folder(schemas)
    tree: dict[Path, str] = {}
    packages = {Path()}
    for path, file in files.items():
        if not any(message.versions for message in file.messages):
            continue
        module = Path(*module_name(path).split("."))
        packages.update(module.parents)
        tree["messages" / module.with_suffix(".py")] = emit_messages(path, file, _digest([schemas / path]))
    everything = _digest(schemas / path for path in files)
    for package in packages - {Path()}:
        about = f'"""Messages of schemas/{package.as_posix()}."""'
        inside = [schemas / path for path in files if package in path.parents]
        tree["messages" / package / "__init__.py"] = "\n".join([*header(package, _digest(inside)), about, ""])
    tree[Path("messages/__init__.py")] = emit_registry(files, everything)
    tree |= {"tables" / path: text for path, text in _tables(schemas, files, everything).items()}
    return dict(sorted(tree.items()))


def _tables(schemas: Path, files: Mapping[Path, SchemaFile], everything: str) -> dict[Path, str]:
    """Return the modules of the package `tables`; nothing if the folder has no tables."""
    tables: dict[Path, str] = {}
    if any(message.kind == "header" for file in files.values() for message in file.messages):
        tables[Path("apis.py")] = emit_apis(files.values(), everything)
    errors, enumerations = schemas / "errors.yaml", schemas / "enumerations.yaml"
    if errors.exists():
        tables[Path("error_codes.py")] = emit_errors(load_errors(errors), _digest([errors]))
    if enumerations.exists():
        tables[Path("enums.py")] = emit_enumerations(*load_enumerations(enumerations), _digest([enumerations]))
    formats = load_record_formats(schemas)
    if formats:
        digest = _digest((schemas / "records").glob("*.yaml"))
        tables[Path("record_formats.py")] = emit_record_formats(formats, digest)
        tables[Path("record_formats.pxd")] = emit_record_constants(formats, digest)
    if tables:
        about = '"""Generated tables: APIs, error codes, enumerations, record formats."""'
        tables[Path("__init__.py")] = "\n".join([*header("", everything), about, ""])
    return tables


def reference_of(schemas: Path) -> dict[Path, str]:
    """Return the pages of the protocol reference, by path.

    Args:
        schemas: a folder of schemas, Kafka's or a user's own.

    Raises:
        SchemaError: a schema is wrong.
    """
    errors, enumerations = schemas / "errors.yaml", schemas / "enumerations.yaml"
    return reference_tree(
        load_folder(schemas),
        load_errors(errors) if errors.exists() else (),
        *(load_enumerations(enumerations) if enumerations.exists() else ((), ())),
        load_record_formats(schemas).values(),
    )


def write_tree(tree: dict[Path, str], folder: Path) -> Drift:
    """Bring `folder` to the state of `tree`.

    Returns:
        What was different before.
    """
    before = drift(tree, folder)
    for path in before.missing + before.changed:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(tree[path], encoding="utf-8")
    for path in before.surplus:
        (folder / path).unlink()
    return before


def drift(tree: dict[Path, str], folder: Path) -> Drift:
    """Compare `folder` with `tree`: each file of it, and what else lies in the folders that the generator owns."""
    missing = tuple(path for path in tree if not (folder / path).is_file())
    changed = tuple(
        path for path in tree if path not in missing and (folder / path).read_bytes() != tree[path].encode()
    )
    present = {
        path.relative_to(folder)
        for owned in OWNED_FOLDERS
        for path in (folder / owned).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    return Drift(missing, changed, tuple(sorted(present - set(tree))))


def _digest(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.read_bytes())
    return digest.hexdigest()
