"""`sasl.jaas.config` has exactly one login module; a listener's section of a file may have several.

Method: read values with none, one and two modules, and files with and without a section for the listener; the tests of
`kafkawire.sdk.jaas` check the notation.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.security.sasl.jaas import JaasEntry, parse_jaas, server_section


def test_one_module() -> None:
    assert parse_jaas('a.Module required user_alice="x";') == JaasEntry("a.Module", "required", {"user_alice": "x"})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected one login module, but found 0"),
        ("a required; b required;", "expected one login module, but found 2"),
        ("KafkaServer { a required; };", "line 1, character 13: expected one of required"),
    ],
)
def test_another_number_of_modules(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_jaas(text)


SHARED = "KafkaServer { a required; b required; };"


@pytest.mark.parametrize(
    ("text", "modules"),
    [
        (SHARED, ["a", "b"]),
        (SHARED + " internal.KafkaServer { c required; };", ["c"]),
        (SHARED + " INTERNAL.KafkaServer { c required; }; Client { d required; };", ["a", "b"]),
        ("internal.KafkaServer { };", []),
    ],
)
def test_sections(text: str, modules: list[str]) -> None:
    assert [entry.module for entry in server_section(text, "INTERNAL")] == modules


def test_a_file_without_a_section() -> None:
    with pytest.raises(ValueError, match=r"neither a section KafkaServer nor a section internal\.KafkaServer"):
        server_section("Client { a required; };", "INTERNAL")
