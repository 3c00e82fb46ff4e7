"""The RE2/J library in Apache Kafka and the reference broker treat every expression in the same way.

Method: obtain the answers from the program `Patterns.java` with the release's jar: for the table, for all named Unicode
classes, and for random expressions with every name of at most two characters and some longer ones.
"""

from __future__ import annotations

import base64
import string
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import pytest

from kafkawire.reference_broker.patterns.pattern_characters import SCRIPTS
from kafkawire.reference_broker.patterns.topic_pattern import TopicPattern
from kafkawire.sdk.errors import BrokerError
from tests.kafka.apache import fetch_jars
from tests.needs import JAVAC
from tests.reference_broker.patterns.pattern_cases import NAMES, OWN_WORDS, answers
from tests.reference_broker.patterns.pattern_texts import SHORT_NAMES, expression, names

pytestmark = JAVAC.mark

_PROGRAM = Path(__file__).parent / "Patterns.java"
_SECONDS = 60

#: The number of random expressions; they take a few seconds.
_COUNT = 2_000

Answer = frozenset[str] | str


def theirs(asked: Mapping[str, Sequence[str]]) -> dict[str, Answer]:
    """Return RE2/J's results for expressions and names: the matches, or why an expression is refused."""
    lines = ["\t".join(base64.b64encode(each.encode()).decode() for each in (text, *asked[text])) for text in asked]
    done = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{fetch_jars()}/*", str(_PROGRAM)],
        input="\n".join([*lines, ""]),
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=True,
    )
    found: dict[str, Answer] = {}
    for text, line in zip(asked, done.stdout.splitlines(), strict=True):
        is_taken = set(line) <= {"0", "1"}
        matching = frozenset(name for name, bit in zip(asked[text], line, strict=is_taken) if bit == "1")
        found[text] = matching if is_taken else OWN_WORDS.get(line, line)
    return found


def ours(text: str, asked: list[str]) -> Answer:
    """Return the reference broker's result."""
    try:
        pattern = TopicPattern(text)
    except BrokerError as error:
        return error.detail.rpartition(" is not a valid regular expression: ")[2].removesuffix(".")
    return frozenset(name for name in asked if pattern.matches(name))


def test_the_answers_of_the_table() -> None:
    expected: dict[str, Answer] = {text: OWN_WORDS.get(str(answer), answer) for text, answer in answers()}
    assert theirs(dict.fromkeys(expected, NAMES)) == expected


def test_classes_of_unicode() -> None:
    categories = [first + second for first in "CLMNPSZ" for second in ("", *string.ascii_lowercase)]
    known = [*SCRIPTS, *categories, "Any", "LC", "L&", "Assigned", "Chakma", "latin", "Latn", "N'Ko"]
    texts = [f"{flags}\\{kind}{{{name}}}" for name in known for kind in "pP" for flags in ("", "(?i)")]
    characters = [*string.ascii_letters, *string.digits, *"._-"]
    assert theirs(dict.fromkeys(texts, characters)) == {text: ours(text, characters) for text in texts}


@pytest.mark.parametrize("seed", range(3))
def test_expressions_made_at_random(seed: int) -> None:
    random = Random(seed)
    texts = [expression(random) for _ in range(_COUNT)]
    asked = {text: [*SHORT_NAMES, *names(random, text, 12)] for text in texts}
    assert {text: ours(text, each) for text, each in asked.items()} == theirs(asked)
