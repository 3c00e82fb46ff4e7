"""The login module of a mechanism on a listener, from the value of `sasl.jaas.config`, or from a section of a file.

`kafkawire.sdk.jaas` reads the notation. A module is only a name here: each mechanism accepts its own module, because
no Java class can be loaded.

Source: `JaasContext` in Apache Kafka.
"""

from __future__ import annotations

from typing import Final

from kafkawire.sdk.jaas import JaasEntry, read_entries, read_sections

__all__ = ["SECTION", "JaasEntry", "parse_jaas", "server_section"]

#: The section of a file for all listeners that have no section of their own.
SECTION: Final = "KafkaServer"


def parse_jaas(text: str) -> JaasEntry:
    """Return the only login module in the value of `sasl.jaas.config`.

    Raises:
        ValueError: the value does not have the notation of JAAS, or not exactly one login module; the text of the error
            names the place and shows no value.
    """
    entries = read_entries(text)
    if len(entries) != 1:
        raise ValueError(f"expected one login module, but found {len(entries)}")
    return entries[0]


def server_section(text: str, listener: str) -> list[JaasEntry]:
    """Return the login modules for a listener in a file: one or more, usually one for each mechanism.

    Args:
        text: the content of the file.
        listener: the name of the listener; its own section is, for example, `internal.KafkaServer`.

    Raises:
        ValueError: the file does not have the notation of JAAS, or no section for the listener.
    """
    sections = read_sections(text)
    own = f"{listener.lower()}.{SECTION}"
    for name in (own, SECTION):
        if name in sections:
            return sections[name]
    raise ValueError(f"there is neither a section {SECTION} nor a section {own}")
