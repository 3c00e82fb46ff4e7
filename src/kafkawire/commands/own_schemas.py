"""Messages and APIs of somebody's own folder of schemas, for the commands that read bytes with them.

The folder's code is generated into a temporary package and imported, as `kafkawire codegen generate` and a program
would do it, and is gone with the process.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import cast

from kafkawire.codegen import SCHEMAS
from kafkawire.codegen.generate import generated_tree, write_tree
from kafkawire.sdk.protocol.api_registry import KAFKA_APIS
from kafkawire.sdk.protocol.schema import Api, Message

__all__ = ["apis_of", "message_of"]

#: Where the generated packages are, until the process ends.
_FOLDERS: list[TemporaryDirectory[str]] = []


def message_of(name: str, schemas: Path) -> type[Message]:
    """Return the class of a message.

    Args:
        name: of a message that the folder has.
        schemas: the folder.

    Raises:
        SchemaError: a schema is wrong.
    """
    return cast("type[Message]", getattr(import_module(f"{_package(schemas)}.messages"), name))


def apis_of(schemas: Path) -> Mapping[int, Api]:
    """Return what the bytes of a connection may be: the folder's APIs, and Kafka's under keys that it does not have.

    Args:
        schemas: kafkawire's own schemas, or another folder; it may be a changed copy of them.

    Raises:
        SchemaError: a schema is wrong.
    """
    if schemas == SCHEMAS:
        return KAFKA_APIS
    try:
        own: Mapping[int, Api] = import_module(f"{_package(schemas)}.tables.apis").KNOWN_APIS
    except ModuleNotFoundError:  # the folder has messages, but no API
        own = {}
    return {**KAFKA_APIS, **{int(key): api for key, api in own.items()}}


@cache
def _package(schemas: Path) -> str:
    """Return the name of the package that was made of a folder."""
    folder = TemporaryDirectory(prefix="kafkawire-")
    _FOLDERS.append(folder)
    write_tree(generated_tree(schemas), Path(folder.name))
    package = ModuleType(f"_kafkawire_own_schemas_{len(_FOLDERS)}")
    package.__path__ = [folder.name]
    sys.modules[package.__name__] = package
    return package.__name__
