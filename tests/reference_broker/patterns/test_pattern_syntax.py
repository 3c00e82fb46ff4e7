"""Expressions mean the same as in RE2/J, and are refused for the same reasons.

Method: check the table of RE2/J's results; then try random expressions, which are accepted or refused but never cause a
failure.
"""

from __future__ import annotations

from random import Random

import pytest

from kafkawire.reference_broker.patterns.pattern_characters import TOPIC_CHARACTERS, Characters
from kafkawire.reference_broker.patterns.pattern_syntax import DEPTH_MAX, PatternError, parse
from kafkawire.reference_broker.patterns.topic_pattern import TopicPattern
from tests.reference_broker.patterns.pattern_cases import NAMES, OWN_MATCHES, OWN_WORDS, answers
from tests.reference_broker.patterns.pattern_texts import expression


def test_the_answers_of_the_table(subtests: pytest.Subtests) -> None:
    for text, answer in list(answers()):
        with subtests.test(text=text, answer=answer):
            if isinstance(answer, frozenset):
                pattern = TopicPattern(text)
                assert {name for name in NAMES if pattern.matches(name)} == OWN_MATCHES.get(text, answer)
            else:
                with pytest.raises(PatternError) as raised:
                    parse(text, TOPIC_CHARACTERS)
                assert str(raised.value) == OWN_WORDS.get(answer, answer)


@pytest.mark.parametrize("seed", range(10))
def test_whatever_comes_is_taken_or_refused(seed: int) -> None:
    random = Random(seed)
    refused = 0
    for _ in range(100):
        try:
            parse(expression(random), TOPIC_CHARACTERS)
        except PatternError:
            refused += 1
    assert 20 <= refused <= 80


@pytest.mark.parametrize("innermost", ["a", "^", "(?:a|b)"])
def test_parts_are_nested_so_deep_and_no_deeper(innermost: str) -> None:
    levels = DEPTH_MAX - (2 if "|" in innermost else 1)
    TopicPattern("(?:" * levels + innermost + "b)" * levels)
    levels += 1
    with pytest.raises(PatternError, match=f"it is nested too deeply; the limit is {DEPTH_MAX} levels"):
        parse("(?:" * levels + innermost + "b)" * levels, TOPIC_CHARACTERS)


def test_what_stands_beside_a_deep_part_is_no_deeper_for_it() -> None:
    levels = DEPTH_MAX - 2
    parse("(?:" * levels + "a" + "b)" * levels + "c*", TOPIC_CHARACTERS)


def test_scripts_are_known_of_ascii_only() -> None:
    with pytest.raises(PatternError, match="scripts are only supported for ASCII"):
        parse(r"\p{Latin}", Characters("aé"))
    assert TopicPattern(r"\p{Ll}\p{L}", Characters("aé")).matches("aé")


def test_classes_whose_case_is_ignored_cost_what_there_are_of_letters() -> None:
    many = Characters(map(chr, [*range(0x410, 0x450), *range(0x1E00, 0x1F00)]))
    parse("(?i)" + "[a-z]" * 100, many)
    with pytest.raises(PatternError, match=f"it has too many case-insensitive classes with {many.cased} letters each"):
        parse("(?i)" + "[a-z]" * 1_999, many)
    parse("(?i)" + "[a-z]" * 1_999, TOPIC_CHARACTERS)
