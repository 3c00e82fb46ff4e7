"""Facts that have a single home, and patterns for code that repeats them.

`tools/tidy.py` checks the rule. Files written by codegen are homes, so codegen itself is exempt, as are the tests of
the homes, which contain the literal bytes to detect wrong ones. Comments and docstrings may name any number.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tools.tidy import Place, Source, Tree

__all__ = ["FACTS", "Fact", "second_homes"]

#: Files in which facts are searched for.
SUFFIXES = {".py", ".pyx", ".pxi", ".pxd", ".xml", ".toml"}

#: The code that creates the homes, and its tests.
LEFT_OUT = (
    "codegen/",
    "tests/codegen/",
    "tests/conformance/",
    "tests/sdk/protocol/",
    "tests/sdk/records/",
    "tests/test_facts.py",
    "tools/facts.py",
)

_UUIDS = "sdk/protocol/uuids.py"
_ACKS = "sdk/protocol/tables/enums/acks.py"
_ENUMS = "sdk/protocol/tables/enums/__init__.py"
_FORMATS = "sdk/protocol/tables/record_formats.py"


class Fact(NamedTuple):
    """A value that is written down in one place.

    Attributes:
        pattern: code that repeats the value.
        home: the file that contains the value, or is generated from the schemas.
        names: the names to import instead.
        in_tests: whether tests must import it too.
    """

    pattern: re.Pattern[str]
    home: str
    names: str
    in_tests: bool = False


def _compared(name: str, value: str) -> re.Pattern[str]:
    """Return a pattern for code that assigns a value to a name, or compares the name with it."""
    return re.compile(rf"\b_?{name}(?:: \w+)?(?: == | != | = |=|==|!=|\"\): ){value}(?![\w.])", re.IGNORECASE)


FACTS = (
    Fact(re.compile(r"\bbytes\(16\)(?! \+)|b(['\"])(?:\\0|\\x00)\1 \* 16\b"), _UUIDS, "ZERO_UUID", in_tests=True),
    Fact(re.compile(r"urlsafe_b64|altchars="), _UUIDS, "format_uuid, parse_uuid"),
    Fact(re.compile(r"(?<![\w.*/\"'])61(?![\w.\"'])"), _FORMATS, "BATCH_HEADER_BYTES"),
    Fact(re.compile(r"['\"]>qi['\"]"), _FORMATS, "MESSAGE_V0_OFFSET_AT, MESSAGE_V0_MESSAGE_SIZE_AT"),
    Fact(re.compile(r"['\"]>hhi['\"]"), "sdk/protocol/header_start.py", "HEADER_START"),
    Fact(_compared(r"(?:acks|no_acks|all_replicas|no_acknowledgements?)", r"-?[01]"), _ACKS, "Acks"),
    Fact(_compared(r"(?:no_member(?:_id)?|member_id)", r"(?:\"\"|'')"), _ENUMS, "UNKNOWN_MEMBER_ID"),
    Fact(_compared(r"(?:no_generation(?:_id)?|generation(?:_id)?)", "-1"), _ENUMS, "UNKNOWN_GENERATION_ID"),
    Fact(_compared(r"(?:no_replica(?:_id)?|replica_id)", "-1"), _ENUMS, "CONSUMER_REPLICA_ID"),
    Fact(_compared(r"(?:no_(?:node|leader|broker)(?:_id)?|leader(?:_id)?)", "-1"), _ENUMS, "NO_LEADER_ID"),
    Fact(re.compile(r"(?<![\d.])4\.3\.0(?![\d.])"), _ENUMS, "KAFKA_RELEASE", in_tests=True),
)


def second_homes(tree: Tree) -> Iterator[Place]:
    """A fact about Kafka is written down once, and imported from there."""
    for source in tree.sources:
        path = source.path.as_posix()
        if source.generated or source.path.suffix not in SUFFIXES or path.startswith(LEFT_OUT):
            continue
        facts = [
            fact
            for fact in FACTS
            if path != fact.home and (fact.in_tests or source.top != "tests") and fact.pattern.search(source.text)
        ]
        for number, line in enumerate(_code(source), 1) if facts else ():
            for fact in facts:
                if found := fact.pattern.search(line):
                    yield source.path, number, f"{found[0].strip()}: import {fact.names} from {fact.home}"


def _code(source: Source) -> list[str]:
    """Return the lines without comments and docstrings."""
    lines = [re.sub(r"(?:^|\s)#.*", "", line) for line in source.lines]
    for node in source.nodes(ast.Expr):
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                lines[number - 1] = ""
    return lines
