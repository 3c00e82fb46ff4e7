"""An error about an unknown name suggests the name that was probably meant, and does so quickly.

Method: check a table of names, and search the sources for other code that compares names.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import kafkawire
from kafkawire.sdk.near_names import did_you_mean, nearest

NAMES = ["linger_ms", "batch_size", "Acks", "retries"]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("lingerms", "; did you mean linger_ms?"),
        (" LINGER_MS ", "; did you mean linger_ms?"),
        ("acks", "; did you mean Acks?"),
        ("compression", ""),
        ("", ""),
    ],
)
def test_what_was_meant(given: str, text: str) -> None:
    assert did_you_mean(given, NAMES) == text
    assert did_you_mean(given, iter(NAMES)) == text


def test_several_names_and_less_likeness() -> None:
    assert nearest("topic-1", ["topic-123", "topic-12", "other"], most=3) == ["topic-12", "topic-123"]
    assert did_you_mean("topic-1", ["topic-123", "topic-12"], most=2) == "; did you mean topic-12, topic-123?"
    assert nearest("abcd", ["abxy"]) == []
    assert nearest("abcd", ["abxy"], likeness=0.4) == ["abxy"]


def test_long_names_and_many() -> None:
    assert nearest("x" * 1_000_000, ["x" * 1_000_001]) == ["x" * 1_000_001]
    assert nearest("last", (f"{number}" for number in range(500))) == []
    assert nearest("last", [*map(str, range(500)), "last"]) == []


def test_names_are_compared_in_one_place() -> None:
    root = Path(kafkawire.__file__).parent
    sources = [each for part in ("sdk", "reference_broker", "commands") for each in (root / part).rglob("*.py")]
    assert len(sources) > 100
    assert [each.name for each in sources if "difflib" in each.read_text()] == ["near_names.py"]
