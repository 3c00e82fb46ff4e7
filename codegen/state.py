"""The complete content of a folder of schemas, or of a release's jars."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from kafkawire.codegen.configs import ConfigSpec, load_configs
from kafkawire.codegen.load import load_folder
from kafkawire.codegen.located import Problems
from kafkawire.codegen.record_formats import RecordFormat, load_record_formats
from kafkawire.codegen.spec import SchemaFile, SingleFile
from kafkawire.codegen.tables import Constant, Enumeration, ErrorSpec, load_enumerations, load_errors
from kafkawire.codegen.znodes import RegistrySpec, load_registry

__all__ = ["State", "comparable", "load_state"]

#: The message that every release of Kafka defines, because connections begin with it, but no folder of custom APIs
#: needs.
_IN_EVERY_RELEASE = "ApiVersionsRequest"


@dataclass(frozen=True, slots=True)
class State:
    """The content of schemas.

    Attributes:
        files: the messages, keyed by path.
        formats: the record formats, keyed by name; None if there are none, as in a jar.
        errors: the error codes, or None.
        enumerations: the enumerations, or None.
        constants: the constants, or None.
        configs: the configurations, keyed by kind of resource, or None.
        registry: the data that Kafka keeps in ZooKeeper, or None.
    """

    files: Mapping[Path, SchemaFile]
    formats: Mapping[str, RecordFormat] | None = None
    errors: tuple[ErrorSpec, ...] | None = None
    enumerations: tuple[Enumeration, ...] | None = None
    constants: tuple[Constant, ...] | None = None
    configs: Mapping[str, tuple[ConfigSpec, ...]] | None = None
    registry: RegistrySpec | None = None

    @property
    def names(self) -> set[str]:
        """The names of the messages that have versions."""
        return {message.name for file in self.files.values() for message in file.messages if message.versions}

    def within(self, part: State) -> State:
        """Return the part of this state that another state also defines, by name; error codes also by number."""
        names = {message.name for file in part.files.values() for message in file.messages}
        errors = {error.code for error in part.errors or ()} | {error.name for error in part.errors or ()}
        enumerations = {item.name for item in part.enumerations or ()}
        constants = {item.name for item in part.constants or ()}
        formats = (part.formats or {}).keys()
        return State(
            {path: kept for path, file in self.files.items() if (kept := _with_messages(file, names)) is not None},
            self.formats and {name: each for name, each in self.formats.items() if name in formats},
            self.errors and tuple(error for error in self.errors if not errors.isdisjoint((error.code, error.name))),
            self.enumerations and tuple(item for item in self.enumerations if item.name in enumerations),
            self.constants and tuple(item for item in self.constants if item.name in constants),
        )


def _with_messages(file: SchemaFile, names: set[str]) -> SchemaFile | None:
    """Return a file reduced to the named messages; None if it has none of them."""
    kept = tuple(message for message in file.messages if message.name in names)
    if not kept:
        return None
    return replace(file, messages=kept) if isinstance(file, SingleFile) else file


def comparable(old: State, new: State) -> tuple[State, State]:
    """Return two comparable states, without differences that exist only because one of them is not a whole release.

    A folder of custom APIs, or one jar of several, defines part of a protocol, and is compared only with that part of a
    release. Two releases, or two states of the same part, are compared as a whole.
    """
    is_old_whole, is_new_whole = (_IN_EVERY_RELEASE in state.names for state in (old, new))
    if is_old_whole and not is_new_whole:
        return old.within(new), new
    if is_new_whole and not is_old_whole:
        return old, new.within(old)
    return old, new


def load_state(folder: Path) -> State:
    """Read a folder of schemas.

    Raises:
        SchemaError: a file is wrong; the error lists every problem in every file.
    """
    problems = Problems()
    attempt = problems.attempt
    errors, enumerations = folder / "errors.yaml", folder / "enumerations.yaml"
    files: dict[Path, SchemaFile] = attempt(lambda: load_folder(folder), {})
    formats: dict[str, RecordFormat] = attempt(lambda: load_record_formats(folder), {})
    codes = attempt(lambda: load_errors(errors) if errors.exists() else None, None)
    tables = attempt(lambda: load_enumerations(enumerations) if enumerations.exists() else None, None)
    configs = folder / "configs.yaml"
    keys = attempt(lambda: load_configs(configs) if configs.exists() else None, None)
    registry = folder / "registry.yaml"
    znodes = attempt(lambda: load_registry(registry) if registry.exists() else None, None)
    problems.check()
    members, constants = tables or (None, None)
    return State(files, formats or None, codes, members, constants, keys, znodes)
