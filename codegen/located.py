"""YAML documents whose mappings remember their lines, so that an error can name file, line and key.

The first step of loading; `load.py` turns what comes out into specs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

__all__ = ["Located", "SchemaError", "read_documents"]

#: libyaml's loader; the one in Python refuses `string?` inside braces, which YAML 1.2 allows.
_Loader: type | None = getattr(yaml, "CSafeLoader", None)


class SchemaError(Exception):
    """A schema file is wrong.

    Args:
        path: the file.
        line: from 1; 0 where no line can be named.
        reason: what is wrong, with the key or field and the value.
    """

    def __init__(self, path: Path, line: int, reason: str) -> None:
        super().__init__(f"{path}:{line}: {reason}" if line else f"{path}: {reason}")
        self.path = path
        self.line = line
        self.reason = reason


class Located(dict[str, Any]):
    """A YAML mapping with the file and line where it begins, and the line of each key."""

    def __init__(self, path: Path, line: int) -> None:
        super().__init__()
        self.path = path
        self.line = line
        self.lines: dict[str, int] = {}

    def error(self, reason: str, key: str | None = None) -> SchemaError:
        """Return an error that points here, or at `key`."""
        return SchemaError(self.path, self.lines.get(key or "", self.line), reason)

    def require(self, key: str, kind: type | tuple[type, ...]) -> Any:
        """Return the value of `key`.

        Raises:
            SchemaError: it is missing or of another type.
        """
        if key not in self:
            raise self.error(f"{key!r} is missing")
        return self.optional(key, kind, None)

    def optional(self, key: str, kind: type | tuple[type, ...], default: Any) -> Any:
        """Return the value of `key`, or `default` when it is not there.

        Raises:
            SchemaError: it is there with another type.
        """
        if key not in self:
            return default
        value = self[key]
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            names = " or ".join(item.__name__ for item in kinds)
            raise self.error(f"{key}: {value!r} is not of type {names}", key)
        return value

    def only(self, allowed: Iterable[str]) -> None:
        """Check that no other keys are there.

        Raises:
            SchemaError: names the first key that is not allowed, and those that are.
        """
        allowed = set(allowed)
        for key in self:
            if key not in allowed:
                raise self.error(f"unknown key {key!r}; known here: {', '.join(sorted(allowed))}", key)


def read_documents(path: Path) -> Iterator[Located]:
    """Yield the documents of a YAML file.

    Raises:
        SchemaError: not YAML, not a mapping, or a key stands twice.
    """
    if _Loader is None:
        raise SchemaError(path, 0, "PyYAML was built without libyaml here; its wheels have it")
    try:
        text = path.read_text(encoding="utf-8")
        nodes = list(yaml.compose_all(text, Loader=_Loader))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or str(error)
        raise SchemaError(path, mark.line + 1 if mark else 0, f"not YAML: {reason}") from error
    for node in nodes:
        if not isinstance(node, yaml.MappingNode):
            raise SchemaError(path, node.start_mark.line + 1, "a schema file holds mappings")
        yield _value(path, node)


_constructor = yaml.constructor.SafeConstructor()


def _value(path: Path, node: yaml.Node) -> Any:
    line = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        mapping = Located(path, line)
        for key_node, value_node in node.value:
            key = str(key_node.value)
            key_line = key_node.start_mark.line + 1
            if key in mapping:
                raise SchemaError(path, key_line, f"key {key!r} stands twice")
            mapping[key] = _value(path, value_node)
            mapping.lines[key] = key_line
        return mapping
    if isinstance(node, yaml.SequenceNode):
        return [_value(path, item) for item in node.value]
    try:
        return _constructor.construct_object(node)
    except (ValueError, yaml.YAMLError) as error:
        raise SchemaError(path, line, f"{node.value!r}: {error}") from error
