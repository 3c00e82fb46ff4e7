"""Checks of the lines that the decoding proxy prints about a conversation between a client and a broker."""

from __future__ import annotations

import re

__all__ = ["assert_decoded", "pairs"]

_FRAME = re.compile(
    r"(?P<connection>\d+) (?P<way>[<>]) <(?P<name>\w+) (?:request|response), version (?P<version>\d+)"
    r"(?: \(unknown here\))?, correlation id (?P<id>\d+)[,:] (?!\d+ bytes)"
)

_LOST = re.compile(r"\d+ <lost: .*>")


def assert_decoded(lines: list[str]) -> None:
    """Fail unless each line is a decoded frame, and each response follows its request in the same version.

    ApiVersions responses may use the first version. A line about a lost connection is not a frame; clients reset
    connections that they no longer need.
    """
    asked: dict[tuple[str, str], re.Match[str]] = {}
    for line in lines:
        found = _FRAME.match(line)
        if found is None and _LOST.fullmatch(line):
            continue
        assert found, line
        key = found["connection"], found["id"]
        if found["way"] == ">":
            asked[key] = found
            continue
        request = asked[key]
        assert found["name"] == request["name"], line
        assert found["version"] == request["version"] or (found["name"], found["version"]) == ("ApiVersions", "0"), line


def pairs(lines: list[str]) -> set[str]:
    """Return the names of the APIs that have a decoded response."""
    return {found["name"] for line in lines if (found := _FRAME.match(line)) and found["way"] == "<"}
