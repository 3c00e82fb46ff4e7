"""How the names in client certificates become principals: the rules in `ssl.principal.mapping.rules`.

    RULE:^CN=([^,]+),OU=ops.*$/ops-$1/L,DEFAULT       the first rule that matches applies; DEFAULT keeps the whole name

Source: Apache Kafka, `SslPrincipalMapper`; `Matcher.replaceAll` in Java.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from kafkawire.sdk.errors import ConfigurationError

__all__ = ["DEFAULT_RULES", "NoRule", "PrincipalMapping"]

#: The rules of a broker that has none: the whole name is the principal.
DEFAULT_RULES: Final = "DEFAULT"

_OPTION: Final = "ssl.principal.mapping.rules"

_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(?:,\s*|$)", re.ASCII)
_PARSER: Final = re.compile(_RULE, re.ASCII)
_BACK_REFERENCE: Final = re.compile(r"\$([0-9]+)")
_JAVA_GROUP_NAME: Final = re.compile(r"(?<!\\)\(\?<(?=[A-Za-z])")

#: What happens to the letters of a name.
_CASES: Final[dict[str, Callable[[str], str]]] = {"": str, "L": str.lower, "U": str.upper}


class NoRule(Exception):
    """No rule applies to a name, so the client is refused."""


class _Rule(NamedTuple):
    """A rule with a pattern.

    Attributes:
        pattern: must match the whole name.
        replacement: replaces each match, with `$1` for the first group.
        case: "L" for lower case, "U" for upper case, or "" for neither.
    """

    pattern: re.Pattern[str]
    replacement: str
    case: str

    def apply(self, name: str) -> str | None:
        """Return the principal for a name; None if the rule does not match.

        Raises:
            NoRule: the replacement names a group that the pattern does not have.
        """
        if self.pattern.fullmatch(name) is None:
            return None
        return _CASES[self.case](self.pattern.sub(self._expand, name))

    def _expand(self, match: re.Match[str]) -> str:
        """Return the replacement of a match as Java's `Matcher` expands it."""
        text, place, parts = self.replacement, 0, []
        while place < len(text):
            character = text[place]
            place += 1
            if character == "\\":
                parts.append(text[place : place + 1])
                place += 1
            elif character == "$":
                place = self._expand_group(match, place, parts)
            else:
                parts.append(character)
        return "".join(parts)

    def _expand_group(self, match: re.Match[str], place: int, parts: list[str]) -> int:
        """Add the group that is named at a position in the replacement, and return the position after it."""
        text = self.replacement
        digits = re.compile("[0-9]+").match(text, place)
        if digits is None:
            raise NoRule(f"the replacement {text!r} has a $ without the number of a group")
        number, end = int(text[place]), place + 1
        if number > self.pattern.groups:
            raise NoRule(f"the replacement {text!r} names group {number}, but the pattern has {self.pattern.groups}")
        while end < digits.end() and number * 10 + int(text[end]) <= self.pattern.groups:
            number, end = number * 10 + int(text[end]), end + 1
        parts.append(match[number] or "")
        return end


class PrincipalMapping:
    """The rules of a listener.

    Args:
        rules: the value of `ssl.principal.mapping.rules`.

    Raises:
        ConfigurationError: a rule is malformed.
    """

    def __init__(self, rules: str = DEFAULT_RULES) -> None:
        self._text = rules
        self._rules: list[_Rule | None] = []  # None stands for DEFAULT
        for found in _SPLITTER.finditer(rules.strip()):
            self._add(found[1])

    def _add(self, rule: str) -> None:
        found = _PARSER.match(rule)
        if found is None or found.end() != len(rule):
            rest = rule if found is None else rule[found.end() :]
            raise ConfigurationError(_OPTION, self._text, f"invalid rule: `{rule}`, unmatched substring: `{rest}`")
        is_default, pattern, replacement, case, _ = found.groups()
        if is_default is not None:
            self._rules.append(None)
        elif pattern is not None:
            try:
                compiled = re.compile(_JAVA_GROUP_NAME.sub("(?P<", pattern), re.ASCII)
            except re.error as error:
                raise ConfigurationError(_OPTION, self._text, f"invalid pattern {pattern!r}: {error}") from None
            self._rules.append(_Rule(compiled, _with_literals(replacement, compiled.groups), case))

    def name_of(self, distinguished_name: str) -> str:
        """Return the name of the principal for the name in a certificate.

        Raises:
            NoRule: no rule applies.
        """
        for rule in self._rules:
            name = distinguished_name if rule is None else rule.apply(distinguished_name)
            if name is not None:
                return name
        raise NoRule(f"no rule in {_OPTION} applies to {distinguished_name}")


def _with_literals(replacement: str, groups: int) -> str:
    """Return a replacement in which references to groups that do not exist are literal text, as in Kafka."""
    if not groups:
        return replacement

    def literal(found: re.Match[str]) -> str:
        number = int(found[1])
        while number > groups and number >= 10:
            number //= 10
        is_known = found[1].startswith("0") or number <= groups
        return found[0] if is_known else f"\\{found[0]}"

    return _BACK_REFERENCE.sub(literal, replacement)
