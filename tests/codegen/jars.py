"""Jars with message definitions, written by tests."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

__all__ = ["PING", "PONG", "write_jar"]

PING: dict[str, Any] = {
    "apiKey": 900,
    "type": "request",
    "listeners": ["broker", "controller"],
    "name": "PingRequest",
    "validVersions": "0-3",
    "deprecatedVersions": "0",
    "flexibleVersions": "2+",
    "latestVersionUnstable": True,
    "fields": [
        {"name": "GroupId", "type": "string", "versions": "0+", "entityType": "groupId", "about": "Not ours."},
        {"name": "Items", "type": "[]Item", "versions": "1+", "nullableVersions": "1+", "default": "null"},
        {"name": "rackId", "type": "string", "taggedVersions": "2+", "tag": 0, "ignorable": True},
        {"name": "Timeout", "type": "int32", "versions": "0+", "default": "0x7f"},
        {"name": "Wait", "type": "bool", "versions": "0+", "default": "true"},
    ],
    "commonStructs": [
        {
            "name": "Item",
            "versions": "1+",
            "fields": [{"name": "Index", "type": "int64", "versions": "1+", "mapKey": True}],
        },
        {"name": "Unused", "versions": "1+", "fields": []},
    ],
}
PONG: dict[str, Any] = {
    "apiKey": 900,
    "type": "response",
    "name": "PingResponse",
    "validVersions": "0-3",
    "flexibleVersions": "2+",
    "fields": [
        {"name": "Node", "type": "Node", "versions": "0+", "fields": [{"name": "Id", "type": "uuid", "versions": "0+"}]}
    ],
}


def write_jar(path: Path, *definitions: dict[str, Any], folder: str = "common/message/") -> Path:
    """Write a jar with message definitions, each preceded by a comment as in Kafka's jars."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
        for definition in definitions:
            archive.writestr(f"{folder}{definition['name']}.json", f"// a comment\n{json.dumps(definition, indent=2)}")
    return path
