"""Load the messages, APIs and records from a user's own folder of schemas, for commands that decode bytes.

Kafka's definitions are added to the folder's, since programs that extend the protocol also use the standard protocol.

The folder's code is generated into a temporary package and imported, as with `kafkawire codegen generate`, and
deleted when the process ends.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, cast

from kafkawire.codegen import SCHEMAS
from kafkawire.codegen.generate import generated_tree, write_tree
from kafkawire.codegen.load import load_folder
from kafkawire.codegen.names import near, shown
from kafkawire.codegen.record_formats import load_record_formats
from kafkawire.sdk.protocol.api_registry import KAFKA_APIS
from kafkawire.sdk.protocol.messages import MODULES
from kafkawire.sdk.protocol.programs import message_class
from kafkawire.sdk.protocol.schema import Api, Message
from kafkawire.sdk.records.internal_records import KAFKA_RECORDS, RecordTypes

__all__ = ["apis_of", "folder_of", "load_message", "record_types_of"]

#: The folder of the generated packages, which is deleted when the process ends.
_FOLDERS: list[TemporaryDirectory[str]] = []


def load_message(name: str, schemas: Path = SCHEMAS) -> type[Message]:
    """Return the class of a message.

    Args:
        name: its name, such as `FetchRequest`.
        schemas: kafkawire's own schemas, or another folder, whose classes are generated first.

    Raises:
        SchemaError: a schema is wrong.
        ValueError: neither the folder nor Kafka has such a message.
    """
    if folder_of(name, schemas) == SCHEMAS:
        return message_class(name)
    return _own_message(name, schemas)


def folder_of(name: str, schemas: Path) -> Path:
    """Return the folder of schemas that defines a message: the user's own, or kafkawire's.

    Args:
        name: the name of the message.
        schemas: kafkawire's own schemas, or another folder.

    Raises:
        SchemaError: a schema is wrong.
        ValueError: no folder has the message.
    """
    own: Collection[str] = () if schemas == SCHEMAS else _names(schemas)
    if name in own:
        return schemas
    if name in MODULES:
        return SCHEMAS
    known = (*own, *load_record_formats(schemas), *MODULES, *load_record_formats(SCHEMAS))
    raise ValueError(f"unknown message or record format {shown(name)}{near(name, known)}")


def apis_of(schemas: Path) -> Mapping[int, Api]:
    """Return the APIs of a connection: the folder's, and Kafka's for keys that the folder does not define.

    Args:
        schemas: kafkawire's own schemas, or another folder, perhaps a changed copy.

    Raises:
        SchemaError: a schema is wrong.
    """
    if schemas == SCHEMAS:
        return KAFKA_APIS
    tables = _tables(schemas, "apis")
    own: Mapping[int, Api] = {} if tables is None else tables.KNOWN_APIS
    return {**KAFKA_APIS, **{int(key): api for key, api in own.items()}}


def record_types_of(schemas: Path) -> RecordTypes:
    """Return the record types of topics: the folder's, and Kafka's for types that the folder does not define.

    Args:
        schemas: kafkawire's own schemas, or another folder, perhaps a changed copy.

    Raises:
        SchemaError: a schema is wrong.
    """
    if schemas == SCHEMAS:
        return KAFKA_RECORDS
    own = _tables(schemas, "record_types")
    if own is None:
        return KAFKA_RECORDS
    keyed = {
        topic: {number: tuple(_own_message(name, schemas) for name in names) for number, names in types.items()}
        for topic, types in own.KEYED_RECORDS.items()
    }
    framed = {
        topic: {number: _own_message(name, schemas) for number, name in types.items()}
        for topic, types in own.FRAMED_RECORDS.items()
    }
    return RecordTypes(_joined(KAFKA_RECORDS.keyed, keyed), _joined(KAFKA_RECORDS.framed, framed))


def _joined(theirs: Mapping[str, Mapping[int, Any]], own: Mapping[str, Mapping[int, Any]]) -> dict[str, Any]:
    return {topic: {**theirs.get(topic, {}), **own.get(topic, {})} for topic in {**theirs, **own}}


def _tables(schemas: Path, name: str) -> Any:
    """Return a module of tables generated from a folder; None if its messages need no tables."""
    try:
        return import_module(f"{_package(schemas)}.tables.{name}")
    except ModuleNotFoundError:
        return None


def _own_message(name: str, schemas: Path) -> type[Message]:
    """Return the class of a message in the folder."""
    return cast("type[Message]", getattr(import_module(f"{_package(schemas)}.messages"), name))


@cache
def _names(schemas: Path) -> tuple[str, ...]:
    """Return the names of a folder's messages that have a version."""
    files = load_folder(schemas).values()
    return tuple(message.name for file in files for message in file.messages if message.known)


@cache
def _package(schemas: Path) -> str:
    """Return the name of the package generated from a folder."""
    folder = TemporaryDirectory(prefix="kafkawire-")
    _FOLDERS.append(folder)
    write_tree(generated_tree(schemas), Path(folder.name))
    package = ModuleType(f"_kafkawire_own_schemas_{len(_FOLDERS)}")
    package.__path__ = [folder.name]
    sys.modules[package.__name__] = package
    return package.__name__
