"""The types of record keys and values, for type checkers; without serializers, both are bytes.

Python 3.11 does not support defaults for type variables (PEP 696); type checkers take them from typing_extensions,
which need not be installed at run time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from kafkawire.sdk.protocol.values import Buffer

    Key = TypeVar("Key", default=bytes)
    Value = TypeVar("Value", default=bytes)
    GivenKey = TypeVar("GivenKey", default=Buffer | str)
    GivenValue = TypeVar("GivenValue", default=Buffer | str)
else:
    from typing import TypeVar

    Key, Value = TypeVar("Key"), TypeVar("Value")
    GivenKey, GivenValue = TypeVar("GivenKey"), TypeVar("GivenValue")

__all__ = ["GivenKey", "GivenValue", "Key", "Value"]
