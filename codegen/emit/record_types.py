"""Write the table of the records in Kafka's internal topics, keyed by topic and record type."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from kafkawire.codegen.emit.source import header
from kafkawire.codegen.spec import RecordFile, SchemaFile, topic_of

__all__ = ["emit_record_types"]

T = TypeVar("T")


def emit_record_types(files: Mapping[Path, SchemaFile], digest: str) -> str:
    """Return the module that lists the messages in the records of each internal topic.

    It includes removed types, because old segments may contain them.
    """
    keyed: dict[str, dict[int, tuple[str, str]]] = {}
    framed: dict[str, dict[int, str]] = {}
    for path, file in files.items():
        if isinstance(file, RecordFile):
            if file.value.known:
                keyed.setdefault(topic_of(path, file), {})[file.key.key or 0] = file.key.name, file.value.name
            continue
        for message in file.messages:
            if message.kind == "metadata" and message.known:
                framed.setdefault(topic_of(path, file), {})[message.key or 0] = message.name
    lines = [
        *header("coordinator/, cluster_metadata/ and remote_log_metadata/", digest),
        '"""The messages in the records of Kafka\'s internal topics, by topic and record type."""',
        "",
        "from typing import Final",
        "",
        '__all__ = ["FRAMED_RECORDS", "KEYED_RECORDS"]',
        "",
        "#: The messages in key and value. A key begins with its record type, a value with its version, both int16.",
        "KEYED_RECORDS: Final[dict[str, dict[int, tuple[str, str]]]] = {",
    ]
    for topic, pairs in sorted(keyed.items()):
        lines += [f"    {json.dumps(topic)}: {{"]
        lines += [f"        {kind}: ({json.dumps(key)}, {json.dumps(value)})," for kind, (key, value) in _sorted(pairs)]
        lines += ["    },"]
    lines += [
        "}",
        "",
        "#: The message in the value, after the version of the frame, the record type and the version, "
        "which are varints.",
        "FRAMED_RECORDS: Final[dict[str, dict[int, str]]] = {",
    ]
    for topic, names in sorted(framed.items()):
        lines += [f"    {json.dumps(topic)}: {{"]
        lines += [f"        {kind}: {json.dumps(name)}," for kind, name in _sorted(names)]
        lines += ["    },"]
    return "\n".join([*lines, "}"]) + "\n"


def _sorted(types: Mapping[int, T]) -> list[tuple[int, T]]:
    return sorted(types.items())
