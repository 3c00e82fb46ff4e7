"""Check the columns that the functions take, before anything is decoded.

Text is not accepted as bytes, although Spark would convert it, because binary data stored as text is always encoded
somehow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow

from kafkawire.sdk.errors import ConfigurationError

__all__ = ["check_binary", "check_text"]


def check_binary(name: str, values: Any) -> None:
    """Raise an error for a column that is not binary; a column of only nulls may have no type.

    Args:
        name: a name for the column's content.
        values: an Arrow array; other objects are accepted unchecked.

    Raises:
        ConfigurationError: the column has another type.
    """
    _check(name, values, "binary", pyarrow.types.is_binary, pyarrow.types.is_large_binary)


def check_text(name: str, values: Any) -> None:
    """Raise an error for a column that is not a string, as `check_binary` does.

    Raises:
        ConfigurationError: the column has another type.
    """
    _check(name, values, "a string", pyarrow.types.is_string, pyarrow.types.is_large_string)


def _check(name: str, values: Any, expected: str, *allowed: Callable[[pyarrow.DataType], bool]) -> None:
    if isinstance(values, pyarrow.Array) and not any(each(values.type) for each in (pyarrow.types.is_null, *allowed)):
        raise ConfigurationError("column", f"{name} {values.type}", f"must be {expected}")
