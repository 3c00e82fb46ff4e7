"""Generate the tree for a folder of schemas, and compare it with a tree on disk.

A tree maps relative paths to texts, so writing and checking use the same data. The same schemas give the same bytes on
every machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kafkawire.codegen.emit.configs import emit_config_documentation, emit_configs
from kafkawire.codegen.emit.messages import emit_messages, module_name
from kafkawire.codegen.emit.record_types import emit_record_types
from kafkawire.codegen.emit.records import RECORD_FORMATS, emit_record_constants, emit_record_formats
from kafkawire.codegen.emit.records_native import emit_native_record_codec
from kafkawire.codegen.emit.records_python import emit_record_codec
from kafkawire.codegen.emit.source import GENERATED, header
from kafkawire.codegen.emit.tables import emit_apis, emit_enumerations, emit_errors, emit_registry, emit_tables_package
from kafkawire.codegen.emit.znodes import emit_znodes
from kafkawire.codegen.file_set import replace_files
from kafkawire.codegen.load import headers_of
from kafkawire.codegen.spec import ApiFile
from kafkawire.codegen.state import State, load_state

__all__ = ["Drift", "drift", "generated_tree", "reference_of", "write_tree"]

#: The folders of a tree that belong to the generator alone: any other file in them is drift.
OWNED_FOLDERS = ("messages", "tables")

#: The messages in the records of a topic.
_RECORD_KINDS = {"coordinator-key", "metadata"}


@dataclass(frozen=True, slots=True)
class Drift:
    """The differences between a tree on disk and the tree that its schemas produce, as relative paths."""

    missing: tuple[Path, ...]
    changed: tuple[Path, ...]
    surplus: tuple[Path, ...]

    def __bool__(self) -> bool:
        return bool(self.missing or self.changed or self.surplus)


def generated_tree(schemas: Path) -> dict[Path, str]:
    """Return every generated file in the protocol package, keyed by path relative to the package.

    Args:
        schemas: a folder of schemas, Kafka's or a user's own; missing tables are left out.

    Raises:
        SchemaError: schemas are wrong; the error lists every problem.
    """
    state = load_state(schemas)
    files = state.files
    tree: dict[Path, str] = {}
    packages = {Path()}
    for path, file in files.items():
        if not any(message.known for message in file.messages):
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
    tree |= {"tables" / path: text for path, text in _tables(schemas, state, everything).items()}
    return dict(sorted(tree.items()))


def _tables(schemas: Path, state: State, everything: str) -> dict[Path, str]:
    """Return the modules of the package `tables`; none if the folder has no tables."""
    tables: dict[Path, str] = {}
    if any(isinstance(file, ApiFile) for file in state.files.values()):
        files = state.files.values()
        tables[Path("apis.py")] = emit_apis(files, headers_of(files), everything)
    if any(message.kind in _RECORD_KINDS for file in state.files.values() for message in file.messages):
        tables[Path("record_types.py")] = emit_record_types(state.files, everything)
    if state.errors is not None:
        tables[Path("error_codes.py")] = emit_errors(state.errors, _digest([schemas / "errors.yaml"]))
    if state.enumerations is not None and state.constants is not None:
        digest = _digest([schemas / "enumerations.yaml"])
        package = emit_enumerations(state.enumerations, state.constants, digest)
        tables |= {"enums" / path: text for path, text in package.items()}
        if state.configs is not None:
            digest = _digest([schemas / "configs.yaml"])
            tables[Path("configs.py")] = emit_configs(state.configs, digest)
            tables[Path("config_documentation.py")] = emit_config_documentation(state.configs, digest)
    if state.registry is not None:
        tables[Path("znodes.py")] = emit_znodes(state.registry, _digest([schemas / "registry.yaml"]))
    if state.formats is not None and state.formats.keys() >= RECORD_FORMATS:
        digest = _digest((schemas / "records").glob("*.yaml"))
        tables[Path("record_formats.py")] = emit_record_formats(state.formats, digest)
        tables[Path("record_formats.pxd")] = emit_record_constants(state.formats, digest)
        tables[Path("record_codec.py")] = emit_record_codec(state.formats, digest)
        tables[Path("record_codec.pxi")] = emit_native_record_codec(state.formats, digest)
    if tables:
        tables[Path("__init__.py")] = emit_tables_package(state.errors is not None, everything)
    return tables


def reference_of(schemas: Path) -> dict[Path, str]:
    """Return the pages of the protocol reference, keyed by path.

    Args:
        schemas: a folder of schemas, Kafka's or a user's own.

    Raises:
        SchemaError: schemas are wrong; the error lists every problem.
        ModuleNotFoundError: jinja2 is not installed.
    """
    from kafkawire.codegen.emit.reference import reference_tree  # loads jinja2, which nothing else needs

    state = load_state(schemas)
    formats = (state.formats or {}).values()
    return reference_tree(state.files, state.errors or (), state.enumerations or (), state.constants or (), formats)


def write_tree(tree: dict[Path, str], folder: Path) -> Drift:
    """Make `folder` match `tree`, changing either all files or none.

    Returns:
        The differences found before writing.

    Raises:
        FileExistsError: a file that would be replaced or removed was not generated; `folder` is unchanged.
        OSError: a file cannot be written; `folder` is unchanged.
    """
    before = drift(tree, folder)
    # A folder passed by mistake may contain a hand-written package.
    foreign = [str(folder / path) for path in before.changed + before.surplus if not _is_generated(folder / path)]
    if foreign:
        more = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
        raise FileExistsError(
            f"{foreign[0]}{more} would be replaced or removed, but does not begin with {GENERATED!r}: "
            f"generate into another folder, or move the existing files"
        )
    replace_files(folder, {path: tree[path] for path in before.missing + before.changed}, before.surplus)
    return before


def _is_generated(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(GENERATED)) == GENERATED.encode()


def drift(tree: dict[Path, str], folder: Path) -> Drift:
    """Compare `folder` with `tree`: each file in the tree, and any others in the folders that the generator owns."""
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
