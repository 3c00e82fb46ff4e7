"""Which columns the functions take: what Spark hands over is looked at before anything is made of it.

Text is no bytes here, though Spark would convert it: what somebody has put into text is encoded in some way.
"""

from __future__ import annotations

from typing import Any

import pyarrow

from kafkawire.sdk.errors import ConfigurationError

__all__ = ["checked_binary", "checked_text"]


def checked_binary(name: str, values: Any) -> None:
    """Refuse a column that is not binary; one of nulls alone may have no type.

    Args:
        name: of what it holds.
        values: an array of Arrow's; others are taken as they are.

    Raises:
        ConfigurationError: it has another type.
    """
    if isinstance(values, pyarrow.Array):
        kind = values.type
        if not (_is_null(kind) or pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind)):
            raise ConfigurationError("column", f"{name} {kind}", "it has to be binary")


def checked_text(name: str, values: Any) -> None:
    """Refuse a column that is no string; as `checked_binary`.

    Raises:
        ConfigurationError: it has another type.
    """
    if isinstance(values, pyarrow.Array):
        kind = values.type
        if not (_is_null(kind) or pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)):
            raise ConfigurationError("column", f"{name} {kind}", "it has to be a string")


def _is_null(kind: pyarrow.DataType) -> bool:
    return bool(pyarrow.types.is_null(kind))
