"""Sets of characters can be given by range or by name, and can be case-insensitive."""

from __future__ import annotations

import string
import tracemalloc

import pytest

from kafkawire.reference_broker.patterns.pattern_characters import TOPIC_CHARACTERS, Characters

SMALL = Characters("aAbK_-.ß1")


def shown(characters: Characters, bits: int | None, of: str) -> str:
    """Return which of the given characters are in a set."""
    assert bits is not None
    return "".join(each for each in of if characters.bit(each) & bits)


@pytest.mark.parametrize(
    ("first", "last", "found"),
    [("a", "b", "ab"), ("B", "_", "K_"), ("b", "a", ""), ("c", "é", "ß"), ("\0", "z", "aAbK_-.1")],
)
def test_ranges(first: str, last: str, found: str) -> None:
    assert shown(SMALL, SMALL.between(first, last), "aAbK_-.ß1") == found


def test_what_no_name_has_is_in_no_set() -> None:
    assert SMALL.bit("x") == SMALL.bit("\u03b1") == 0
    assert SMALL.bit("a") & SMALL.all


@pytest.mark.parametrize(
    ("character", "found"), [("a", "aA"), ("K", "kK\u212a"), ("\u212a", "kK\u212a"), ("1", "1"), ("ß", "ß"), ("_", "_")]
)
def test_case(character: str, found: str) -> None:
    bits = SMALL.ignoring_case(SMALL.bit(character))
    assert set(shown(SMALL, bits, "aAbBkK\u212a_-.ß1")) == set(found)


def test_the_dotless_i_has_no_other_case() -> None:
    turkish = Characters("iI\u0131\u0130")
    assert turkish.ignoring_case(turkish.bit("\u0131")) == turkish.bit("\u0131")
    assert turkish.ignoring_case(turkish.bit("\u0130")) == turkish.bit("\u0130")
    assert turkish.ignoring_case(turkish.bit("i")) == turkish.bit("i") | turkish.bit("I")


@pytest.mark.parametrize(("used", "count"), [("aB1._-", 4), ("k", 3), ("0123456789._-", 0), ("", 0)])
def test_only_what_has_another_case_costs_anything(used: str, count: int) -> None:
    assert Characters(used).cased == count


def test_listed_classes() -> None:
    names = string.ascii_letters + string.digits + "._-"
    assert shown(TOPIC_CHARACTERS, TOPIC_CHARACTERS.listed("[:punct:]"), names) == "._-"
    assert shown(TOPIC_CHARACTERS, TOPIC_CHARACTERS.listed(r"\d"), names) == string.digits
    assert TOPIC_CHARACTERS.listed("[:foo:]") is None


@pytest.mark.parametrize(
    ("name", "ignores_case", "found"),
    [
        ("L", False, "aAbKß"),
        ("Ll", False, "abß"),
        ("Ll", True, "abKß"),
        ("Lu", False, "AK"),
        ("Lu", True, "aAbK"),
        ("N", True, "1"),
        ("Pc", False, "_"),
        ("Any", False, "aAbK_-.ß1"),
        ("Greek", False, ""),
    ],
)
def test_classes_of_unicode(name: str, ignores_case: bool, found: str) -> None:
    assert shown(SMALL, SMALL.unicode(name, ignores_case=ignores_case), "aAbK_-.ß1") == found


def test_scripts_of_ascii() -> None:
    plain = Characters("aK1_")
    assert plain.has_scripts
    assert not SMALL.has_scripts
    assert shown(plain, plain.unicode("Latin", ignores_case=False), "aK1_") == "aK"
    assert shown(plain, plain.unicode("Common", ignores_case=False), "aK1_") == "1_"
    assert plain.unicode("Klingon", ignores_case=False) is None


def test_memory_of_many_characters() -> None:
    """One integer per character, with as many bits as there are characters, would take up 50 MB."""
    many = "".join(map(chr, range(0x4E00, 0x4E00 + 20_000)))
    tracemalloc.start()
    characters = Characters(many)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 20_000_000
    assert characters.unicode("Lo", ignores_case=False) == characters.all == (1 << 20_000) - 1
    assert characters.bit(many[12_345]) == 1 << 12_345
