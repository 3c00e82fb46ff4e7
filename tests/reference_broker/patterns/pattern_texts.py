"""Random regular expressions: all of RE2/J's syntax, much syntax that RE2/J lacks, and malformed expressions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random

__all__ = ["SHORT_NAMES", "expression", "names"]


def _words(text: str) -> list[str]:
    return text.split()


LETTERS = "aAbkKsS019._-"

ATOMS = [
    *LETTERS, *_words(r"\. \- \_ \d \D \w \W \s \S ] } ,"), *"aaaabbbb....",
    *_words(r"\pL \PL \pN \PN \pP \p{Lu} \P{Ll} \p{Ll} \p{^Lu} \P{^N} \p{Latin} \P{Common}"),
    *_words(r"\p{Greek} \p{^Han} \p{Any} \PZ"),
    *_words(r"\x41 \x{61} \x{0000062} \x2d \141 \060 \0 \07 \a \f \n \r \t \v \% \é"),
    *_words(r"^ $ \A \z \b \B ^ $ \b"), *_words(r"\Qa.\E \Q*\E \Qb \Q\E \Q\\E"),
    "\u017f", "é", "\n", " ", "#",
    *_words("(?i) (?-i) (?s) (?m) (?U) (?) (?i-s) (?im-sU) (?i-i)"),
]  # fmt: skip

#: Syntax that RE2/J refuses, at least in most places.
REFUSED = [
    *_words(r"\Z \1 \8 \12 \C \G \h \H \R \X \K \N \k<n> \g1 \E \e \cA \u0041 \x \x4 \x{} \x{110000} \xg1 \i \\"),
    *_words(r"\p \pX \p{} \p{lu} \p{IsLatin} \p{L \P{^} \p{Cn} \p{L&} \pé"),
    *_words("(?=a) (?!a) (?<=a) (?<!a) (?#a) (?>a) (?|a) (?P=n) (?P>n) (?R) (?(1)a) (?'n'a) (?x) (?a) (?i-) (?-)"),
    *_words("(?P<>a) (?<n-a>b) (?P<n (?^i) (?--i) ( ) (?  [ [a [^ [] [b-a] [[:foo:]] [[:alpha] a*+ a++ a?+ a*** {*"),
    *_words("a{1001} a{2,1} a{2}{3} a{99999999999} a{1,1001} * + ? {2} |* (*) (|+a)"),
]  # fmt: skip

REPETITIONS = (
    *_words("* + ? * + ? *? +? ?? {2} {2,} {0,2} {1,3}? {0} {0,0} {3}? {1} {,2} {01} {1,02} { {2 {2, {a} {1,2,3}"),
    "(?i)*", "(?i)*(?s)+", r"*\Q\E*", "{-1}", "{ 2}",
)  # fmt: skip

CLASS_ITEMS = [
    *LETTERS, *_words("a-b A-K a-z 0-9 A-z +-- --. ,-. - [ ^ ] *"),
    *_words(r"\] \- \d \W \s \D \w \pL \PN \p{Lu} \P{^Lu} \p{Ll} \P{Ll}"),
    *_words("\\x41 \\x{61}-\\x{63} \\060-\\071 \\n \\_ \\. \u017f a-\\d \\d-z [:a] [.a.] [=a=] [: :]"),
    *(f"[:{name}:]" for name in _words("alnum alpha ascii blank cntrl digit graph lower print punct space upper word")),
    *_words("[:^alpha:] [:^upper:] [:^digit:] [:xdigit:] [:^^alpha:] [:foo:] [:Alpha:] \\b \\A \\Q \\z a-] b-a"),
]  # fmt: skip

DAMAGE = r"()[]{}*+?|\^$.,:-<>=!#PQEdwpiULnxabA01&" + "\n"

#: All names of up to two characters, composed of a few characters that differ in relevant ways.
SHORT_NAMES = ["", *("".join(name) for length in (1, 2) for name in product("aAkKs1_-.", repeat=length))]


def expression(random: Random) -> str:
    """Return an expression, which may be invalid."""
    text = _choice(random, 3)
    if random.random() < 0.2:
        text = _damaged(random, text)
    return text


def names(random: Random, text: str, count: int) -> Iterator[str]:
    """Return names, some of which an expression may match."""
    letters = "".join(each for each in text if each.isascii() and (each.isalnum() or each in "._-")) + "aAkKsS1_-."
    for _ in range(count):
        yield "".join(random.choices(letters, k=random.randint(3, 8)))


def _choice(random: Random, depth: int) -> str:
    count = random.choice((1, 1, 1, 2, 3))
    return "|".join(_sequence(random, depth) for _ in range(count))


def _sequence(random: Random, depth: int) -> str:
    return "".join(_part(random, depth) for _ in range(random.choice((0, 1, 1, 2, 2, 3, 4))))


def _part(random: Random, depth: int) -> str:
    chance = random.random()
    if chance < 0.02:
        part = random.choice(REFUSED)
    elif chance < 0.25:
        part = _class(random)
    elif chance < 0.45 and depth:
        opening = random.choice(("(", "(", "(?:", "(?:", "(?i:", "(?P<n>", "(?<m>", "(?s-i:", "(?mU:", "(?-i:"))
        part = f"{opening}{_choice(random, depth - 1)})"
    else:
        part = random.choice(ATOMS)
    if random.random() < 0.3:
        part += random.choice(REPETITIONS)
    return part


def _class(random: Random) -> str:
    items = "".join(random.choice(CLASS_ITEMS) for _ in range(random.choice((1, 1, 2, 3))))
    return random.choice(("[", "[", "[^", "[]", "[^]")) + items + "]"


def _damaged(random: Random, text: str) -> str:
    for _ in range(random.choice((1, 1, 2, 4))):
        place = random.randint(0, len(text))
        kind = random.randrange(4)
        if kind == 0:
            text = text[:place] + text[place + 1 :]
        elif kind == 1:
            text = text[:place] + random.choice(DAMAGE) + text[place:]
        elif kind == 2:
            text = text[:place] + random.choice(DAMAGE) + text[place + 1 :]
        else:
            end = random.randint(place, len(text))
            text = text[:end] + text[place:]
    return text
