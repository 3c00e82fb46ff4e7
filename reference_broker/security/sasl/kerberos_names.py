"""The short names of Kerberos principals: `alice` for `alice@EXAMPLE.COM`, by the rules of an option.

A rule is DEFAULT, which removes the default realm, or RULE:[components:format](match)s/from/to/g/L: if the principal
has that number of components, and the formatted name matches, then the name is substituted and put in lower case.

Regular expressions are Python's; they differ from Java's only in rare constructs.

Source: `sasl.kerberos.principal.to.local.rules`; `KerberosShortNamer`, `KerberosRule`, `KerberosName` in Apache Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

__all__ = ["KerberosName", "NoShortName", "ShortNames", "parse_kerberos_name"]

_NAME = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_RULE = re.compile(
    r"(?P<default>DEFAULT)|RULE:\[(?P<components>\d*):(?P<format>[^\]]*)](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<from>[^/]*)/(?P<to>[^/]*)/(?P<repeat>g)?)?/?(?P<case>[LU])?",
    re.ASCII,
)
_PARAMETER = re.compile(r"\$(\d*)", re.ASCII)

#: A reference to a group in a Java replacement, an escaped character, or any other character.
_REPLACEMENT = re.compile(r"\$(\d)|\\(.)|([^$\\]+)", re.ASCII | re.DOTALL)

#: The maximum number of digits in the number of a part: as many as always fit into a Java int.
_DIGITS_MAX = 9


class NoShortName(Exception):
    """No rule applies to a principal, or the result is not a short name."""


class KerberosName(NamedTuple):
    """A principal of Kerberos.

    Attributes:
        service: the first component, which is the user's name for a user.
        host: the second component; None if there is none.
        realm: the realm; None if there is none.
    """

    service: str
    host: str | None = None
    realm: str | None = None

    def __str__(self) -> str:
        host = "" if self.host is None else f"/{self.host}"
        return f"{self.service}{host}" + ("" if self.realm is None else f"@{self.realm}")


class _Rule(NamedTuple):
    """A rule; without a format it is DEFAULT."""

    format: str | None = None
    components: int = 0
    match: re.Pattern[str] | None = None
    substituted: re.Pattern[str] | None = None
    replacement: str = ""
    repeats: bool = False
    case: str | None = None

    def apply(self, parts: Sequence[str], default_realm: str) -> str | None:
        """Return the short name; None if the rule does not apply."""
        if self.format is None:
            name = parts[1] if parts[0] == default_realm else None
        elif len(parts) - 1 == self.components:
            name = self._formatted(self.format, parts)
        else:
            name = None
        if name is None:
            return None
        if re.search("[/@]", name):
            raise NoShortName(f"a rule returns {name!r}, which is not a short name")
        return {"L": name.lower(), "U": name.upper()}.get(self.case or "", name)

    def _formatted(self, text: str, parts: Sequence[str]) -> str | None:
        base = _PARAMETER.sub(lambda found: _part(found[1], parts), text)
        if self.match is not None and not self.match.fullmatch(base):
            return None
        if self.substituted is None:
            return base
        return self.substituted.sub(lambda found: _replaced(self.replacement, found), base, count=not self.repeats)


class ShortNames:
    """Translates principals.

    Args:
        rules: the rules, in order.
        default_realm: the realm that DEFAULT removes.

    Raises:
        ValueError: a rule has another form, or contains an invalid regular expression.
    """

    def __init__(self, rules: Iterable[str], default_realm: str) -> None:
        self._rules = [_read_rule(rule) for rule in rules]
        self._default_realm = default_realm

    def short_name(self, name: KerberosName) -> str:
        """Return the short name of a principal: the result of the first rule that applies.

        Raises:
            NoShortName: no rule applies, or its result contains a slash or an at sign.
        """
        if name.host is None and name.realm is None:
            return name.service
        parts = [name.realm or "", name.service, *([] if name.host is None else [name.host])]
        for rule in self._rules:
            found = rule.apply(parts, self._default_realm)
            if found is not None:
                return found
        raise NoShortName(f"no rule applies to {name}")


def parse_kerberos_name(text: str) -> KerberosName:
    """Return the principal that a text such as `kafka/host@REALM` stands for.

    Raises:
        ValueError: the text contains an at sign, but does not have this form.
    """
    found = _NAME.fullmatch(text)
    if found is not None:
        return KerberosName(found[1], found[2], found[3])
    if "@" in text:
        raise ValueError(f"{text!r:.200} is not a name of Kerberos")
    return KerberosName(text)


def _read_rule(rule: str) -> _Rule:
    found = _RULE.fullmatch(rule)
    if found is None:
        raise ValueError(f"{rule!r} is neither DEFAULT nor a rule such as RULE:[1:$1](.*)s/a/b/g/L")
    if found["default"]:
        return _Rule()
    if not 0 < len(found["components"]) <= _DIGITS_MAX:
        raise ValueError(f"{rule!r:.200} has no usable number of components")
    try:
        match, substituted = (None if text is None else re.compile(text) for text in (found["match"], found["from"]))
    except re.error as error:
        raise ValueError(f"{rule!r} has an invalid regular expression: {error}") from None
    components = int(found["components"])
    return _Rule(
        found["format"], components, match, substituted, found["to"] or "", bool(found["repeat"]), found["case"]
    )


def _part(number: str, parts: Sequence[str]) -> str:
    index = int(number) if 0 < len(number) <= _DIGITS_MAX else len(parts)
    if index >= len(parts):
        raise NoShortName(f"a rule refers to ${number:.20}, but a name has the parts 0 to {len(parts) - 1}")
    return parts[index]


def _replaced(replacement: str, found: re.Match[str]) -> str:
    """Return the replacement of a match, in which dollar signs and backslashes mean what they do in Java."""
    pieces = list(_REPLACEMENT.finditer(replacement))
    if "".join(piece[0] for piece in pieces) != replacement:
        raise NoShortName("a rule has an invalid replacement")
    parts = []
    for piece in pieces:
        if piece[1] is not None and int(piece[1]) > found.re.groups:
            raise NoShortName(f"a rule refers to the group ${piece[1]}, which does not exist")
        parts.append(found[int(piece[1])] or "" if piece[1] is not None else piece[2] or piece[3])
    return "".join(parts)
