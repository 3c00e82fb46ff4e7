"""User and password as Java's clients are told them: `sasl.jaas.config`, which queries for Spark's connector have.

Source: `JaasConfig` in Apache Kafka; `PlainLoginModule`, `ScramLoginModule`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.spark.option_values import CLIENT_PREFIX

__all__ = ["parse_login", "with_login"]

#: How Java's clients are told user and password.
_JAAS: Final = "sasl.jaas.config"

_CHARACTERS_MAX: Final = 10_000

#: Jars that bring Kafka's classes under another name put a prefix before it.
_LOGIN = re.compile(r"(?:\w+\.)*(?:Plain|Scram)LoginModule\s+required\s+(.*?)\s*;", re.DOTALL)
_ENTRY = re.compile(r'(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s";=]+))(?:\s+|$)', re.DOTALL)

#: What the entries are called here.
_NAMES: Final = {"username": "sasl_username", "password": "sasl_password"}


def parse_login(option: str, text: str) -> dict[str, str]:
    """Return user and password, by the names of the clients' options.

    Args:
        option: the name of the option.
        text: such as `org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";`.

    Raises:
        ConfigurationError: it is for another mechanism, or says something else. The text does not show it.
    """
    reason = 'expected PlainLoginModule or ScramLoginModule required username="…" password="…";'
    login = _LOGIN.fullmatch(text.strip()) if len(text) <= _CHARACTERS_MAX else None
    if login is None:
        raise ConfigurationError(option, text, reason)
    found: dict[str, str] = {}
    place, entries = 0, login[1]
    while place < len(entries):
        entry = _ENTRY.match(entries, place)
        if entry is None or entry[1] not in _NAMES or _NAMES[entry[1]] in found:
            raise ConfigurationError(option, text, reason)
        found[_NAMES[entry[1]]] = entry[3] if entry[2] is None else re.sub(r"\\(.)", r"\1", entry[2], flags=re.DOTALL)
        place = entry.end()
    if len(found) < len(_NAMES):
        raise ConfigurationError(option, text, reason)
    return found


def with_login(given: Mapping[str, str]) -> dict[str, str]:
    """Return a client's options, with user and password as options where Java's clients are told them by a login.

    Args:
        given: text by names without the prefix.

    Raises:
        ConfigurationError: see `parse_login`; or they are given in both ways.
    """
    found = {name: text for name, text in given.items() if name != _JAAS}
    if _JAAS in given:
        for name, value in parse_login(f"{CLIENT_PREFIX}{_JAAS}", given[_JAAS]).items():
            if name in found:
                raise ConfigurationError(f"{CLIENT_PREFIX}{_JAAS}", given[_JAAS], f"{name} was given already")
            found[name] = value
    return found
