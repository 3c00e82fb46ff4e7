"""Which columns the functions take: what Spark hands over is looked at before anything is made of it.

Text does not count as bytes here, though Spark would convert it: what is in a text is encoded in some way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow

from kafkawire.sdk.errors import ConfigurationError

__all__ = ["check_binary", "check_text"]


def check_binary(name: str, values: Any) -> None:
    """Refuse a column that is not binary; one of nulls alone may have no type.

    Args:
        name: the name of what it holds.
        values: an array of Arrow's; others are taken as they are.

    Raises:
        ConfigurationError: it has another type.
    """
    _check(name, values, "binary", pyarrow.types.is_binary, pyarrow.types.is_large_binary)


def check_text(name: str, values: Any) -> None:
    """Refuse a column that is not a string; as `check_binary`.

    Raises:
        ConfigurationError: it has another type.
    """
    _check(name, values, "a string", pyarrow.types.is_string, pyarrow.types.is_large_string)


def _check(name: str, values: Any, expected: str, *allowed: Callable[[pyarrow.DataType], bool]) -> None:
    if isinstance(values, pyarrow.Array) and not any(each(values.type) for each in (pyarrow.types.is_null, *allowed)):
        raise ConfigurationError("column", f"{name} {values.type}", f"it has to be {expected}")
