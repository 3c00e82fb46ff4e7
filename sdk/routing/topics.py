"""Which names a topic can have: what no broker would accept is refused before it is asked for.

Source: Apache Kafka, `Topic.validate`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.protocol.values import quoted

__all__ = ["LEGAL_NAME", "checked_topic", "checked_topics", "is_legal_name"]

#: Brokers make file names of a topic's, with a hyphen and the number of a partition.
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")

#: The same in words.
LEGAL_NAME: Final = "1 to 249 of the characters a-z, A-Z, 0-9, '.', '_', '-'"


def is_legal_name(name: str) -> bool:
    """Return whether a topic can have a name."""
    return name not in (".", "..") and _NAME.fullmatch(name) is not None


def checked_topic(name: object) -> str:
    """Return the name of a topic, as a plain `str` also if it is a member of an enumeration of strings.

    Raises:
        LocalProtocolError: no topic can have it.
    """
    if not isinstance(name, str):
        many = "; give topics one by one, or all in one list" if isinstance(name, list | tuple | set) else ""
        raise LocalProtocolError(f"topic {quoted(name, 100)}: expected a string, got {type(name).__name__}{many}")
    if not is_legal_name(name):
        hint = "; the servers are the first argument" if ":" in name else ""
        if name.startswith("^"):
            hint = "; topics by a pattern: subscribe(pattern=…)"
        raise LocalProtocolError(f"topic {quoted(name, 300)}: expected {LEGAL_NAME}{hint}")
    return str.__str__(name)


def checked_topics(names: Iterable[object]) -> frozenset[str]:
    """Return the names of topics.

    Raises:
        LocalProtocolError: no topic can have one of them.
    """
    return frozenset(checked_topic(name) for name in names)
