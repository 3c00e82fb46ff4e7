"""The options of a blocking client, which are those of the asyncio client with an I/O thread."""

from __future__ import annotations

from typing import Any, TypeVar

from kafkawire.sdk.errors import ConfigurationError

__all__ = ["on_io_thread"]

Keywords = TypeVar("Keywords")


def on_io_thread(options: Keywords) -> Keywords:
    """Return options with io="thread".

    Raises:
        ConfigurationError: the options have another value for `io`.
    """
    given: dict[str, Any] = dict(options)  # type: ignore[call-overload]  # a TypedDict is a mapping
    if given.setdefault("io", "thread") != "thread":
        raise ConfigurationError("io", given["io"], "a blocking client has no event loop to run on: omit the option")
    return given  # type: ignore[return-value]  # the same keywords
