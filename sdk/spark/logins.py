"""User name and password as Java clients give them: `sasl.jaas.config`, which queries for Spark's connector use.

Source: `JaasConfig` in Apache Kafka; `PlainLoginModule`, `ScramLoginModule`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.spark.option_values import CLIENT_PREFIX

__all__ = ["parse_login", "with_login"]

#: The option for user name and password in Java clients.
_JAAS: Final = "sasl.jaas.config"

_CHARACTERS_MAX: Final = 10_000

#: Jars that shade Kafka's classes put a prefix before the class name.
_LOGIN = re.compile(r"(?:\w+\.)*(?:Plain|Scram)LoginModule\s+required\s+(.*?)\s*;", re.DOTALL)
_ENTRY = re.compile(r'(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s";=]+))(?:\s+|$)', re.DOTALL)

#: Our options for the entries, keyed by entry name.
_NAMES: Final = {"username": "sasl_username", "password": "sasl_password"}


def parse_login(option: str, text: str) -> dict[str, str]:
    """Return user name and password, keyed by the names of the client options.

    Args:
        option: the name of the option.
        text: for example `org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";`.

    Raises:
        ConfigurationError: the login is for another mechanism or is malformed. The error does not reveal the text.
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
    """Return a client's options, with a Java client's login replaced by the options for user name and password.

    Args:
        given: text, keyed by names without the prefix.

    Raises:
        ConfigurationError: see `parse_login`; also, if the login is given in both forms.
    """
    found = {name: text for name, text in given.items() if name != _JAAS}
    if _JAAS in given:
        for name, value in parse_login(f"{CLIENT_PREFIX}{_JAAS}", given[_JAAS]).items():
            if name in found:
                raise ConfigurationError(f"{CLIENT_PREFIX}{_JAAS}", given[_JAAS], f"{name} is also given")
            found[name] = value
    return found
