"""Check topic names, rejecting a name that no broker would accept before it is sent.

Source: Apache Kafka, `Topic.validate`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.near_names import pass_its
from kafkawire.sdk.protocol.values import quoted

__all__ = ["LEGAL_NAME", "checked_topic", "checked_topics", "is_legal_name"]

#: The length is limited because brokers build file names from a topic's name, a hyphen and a partition number.
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")

#: The rule for topic names, in words.
LEGAL_NAME: Final = "1 to 249 of the characters a-z, A-Z, 0-9, '.', '_', '-'"


def is_legal_name(name: str) -> bool:
    """Return whether a topic name is legal."""
    return name not in (".", "..") and _NAME.fullmatch(name) is not None


def checked_topic(name: object) -> str:
    """Check a topic name, and return it as a plain `str`, even if it is a member of a string enumeration.

    Raises:
        LocalProtocolError: the name is invalid.
    """
    if not isinstance(name, str):
        advice = pass_its(name, ("name", "topic"))
        if not advice and isinstance(name, list | tuple | set):
            advice = "; pass several as separate arguments or in a list"
        raise LocalProtocolError(f"topic {quoted(name, 100)}: expected a string, got {type(name).__name__}{advice}")
    if not is_legal_name(name):
        hint = "; the servers are the first argument" if ":" in name else ""
        if name.startswith("^"):
            hint = "; to subscribe to topics by pattern: subscribe(pattern=…)"
        raise LocalProtocolError(f"topic {quoted(name, 300)}: expected {LEGAL_NAME}{hint}")
    return str.__str__(name)


def checked_topics(names: Iterable[object]) -> frozenset[str]:
    """Check topic names, and return them.

    Raises:
        LocalProtocolError: a name is invalid.
    """
    return frozenset(checked_topic(name) for name in names)
