"""Sets of the characters that occur in names, as integers with one bit per character; expressions' classes use them.

Other Unicode characters are irrelevant, so a class of any size costs only a few integer operations. Classes and their
names are those of RE2/J, which Apache Kafka uses. Case-insensitive matching uses Unicode's simple folding, which also
equates `k` with the Kelvin sign and `s` with the long s.
"""

from __future__ import annotations

import string
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from typing import Final

__all__ = ["SCRIPTS", "TOPIC_CHARACTERS", "Characters"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Letters outside ASCII that differ only in case from an ASCII letter.
_OTHER_CASES: Final = "\N{KELVIN SIGN}\N{LATIN SMALL LETTER LONG S}"

#: The lowercase form of capital I, but only in Turkish.
_DOTLESS: Final = "\N{LATIN SMALL LETTER DOTLESS I}"

_ALNUM: Final = string.ascii_letters + string.digits

#: The classes that list their characters, all in ASCII.
_LISTED: Final = {
    r"\d": string.digits,
    r"\s": "\t\n\f\r ",
    r"\w": _ALNUM + "_",
    "[:alnum:]": _ALNUM,
    "[:alpha:]": string.ascii_letters,
    "[:ascii:]": "".join(map(chr, range(0x80))),
    "[:blank:]": "\t ",
    "[:cntrl:]": "".join(map(chr, range(0x20))) + "\x7f",
    "[:digit:]": string.digits,
    "[:graph:]": _ALNUM + string.punctuation,
    "[:lower:]": string.ascii_lowercase,
    "[:print:]": _ALNUM + string.punctuation + " ",
    "[:punct:]": string.punctuation,
    "[:space:]": string.whitespace,
    "[:upper:]": string.ascii_uppercase,
    "[:word:]": _ALNUM + "_",
    "[:xdigit:]": string.hexdigits,
}

#: The categories of Unicode 6.0, and the prefixes that stand for several of them.
_CATEGORIES: Final = _words(
    "C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs"
)

#: The scripts of Unicode 6.0.
SCRIPTS: Final = _words(
    "Arabic Armenian Avestan Balinese Bamum Batak Bengali Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal "
    "Carian Cham Cherokee Common Coptic Cuneiform Cypriot Cyrillic Deseret Devanagari Egyptian_Hieroglyphs Ethiopic "
    "Georgian Glagolitic Gothic Greek Gujarati Gurmukhi Han Hangul Hanunoo Hebrew Hiragana Imperial_Aramaic Inherited "
    "Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kayah_Li Kharoshthi Khmer Lao Latin "
    "Lepcha Limbu Linear_B Lisu Lycian Lydian Malayalam Mandaic Meetei_Mayek Mongolian Myanmar New_Tai_Lue Nko Ogham "
    "Ol_Chiki Old_Italic Old_Persian Old_South_Arabian Old_Turkic Oriya Osmanya Phags_Pa Phoenician Rejang Runic "
    "Samaritan Saurashtra Shavian Sinhala Sundanese Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet "
    "Tamil Telugu Thaana Thai Tibetan Tifinagh Ugaritic Unknown Vai Yi"
)


class Characters:
    """The characters in names, and sets of them.

    Args:
        used: the characters.
    """

    def __init__(self, used: Iterable[str]) -> None:
        found = set(used)
        #: Whether the script of each character is known.
        self.has_scripts = all(map(str.isascii, found))
        found |= {other for each in found for other in (each.lower(), each.upper())}
        found |= {each for each in _OTHER_CASES if _folded(each) in found}
        self._ordered = sorted(each for each in found if len(each) == 1)
        # These are indexes, since separate sets for many characters would take quadratic memory.
        self._places = {character: place for place, character in enumerate(self._ordered)}
        #: The set of all characters.
        self.all = (1 << len(self._ordered)) - 1
        cases: dict[str, list[int]] = {}
        for place, character in enumerate(self._ordered):
            cases.setdefault(_folded(character), []).append(place)
        #: For each group of two or more characters that differ only in case, their indexes.
        self._cases = {folded: places for folded, places in cases.items() if len(places) > 1}
        #: The number of cased characters that `ignoring_case` has to check.
        self.cased = sum(map(len, self._cases.values()))
        self._known: dict[str, int] = {}

    def bit(self, character: str, *, ignores_case: bool = False) -> int:
        """Return the set with one character, optionally with its other cases; empty if no name contains it."""
        place = self._places.get(character)
        if place is None:
            return 0
        places = self._cases.get(_folded(character), [place]) if ignores_case else [place]
        return sum(1 << each for each in places)

    def between(self, first: str, last: str) -> int:
        """Return the set of all characters from `first` to `last`."""
        begin, end = bisect_left(self._ordered, first), bisect_right(self._ordered, last)
        return (1 << end) - (1 << begin) if begin < end else 0

    def ignoring_case(self, bits: int) -> int:
        """Return a set extended by the other cases of its characters."""
        # This uses bytes, since every change to a long integer copies it.
        found = bytearray(bits.to_bytes(len(self._ordered) // 8 + 1, "little"))
        for places in self._cases.values():
            if any(found[place >> 3] >> (place & 7) & 1 for place in places):
                for place in places:
                    found[place >> 3] |= 1 << (place & 7)
        return int.from_bytes(found, "little")

    def listed(self, name: str) -> int | None:
        """Return a set of ASCII characters, given its name, such as `[:alpha:]` or `\\d`; None if it is unknown."""
        if name not in _LISTED:
            return None
        return self._set(name, _LISTED[name].__contains__)

    def unicode(self, name: str, *, ignores_case: bool) -> int | None:
        """Return the set for a Unicode category or script, given its name; None if it is unknown.

        RE2/J can ignore case only in `Lu` and `Ll`, and the only capitals that it adds to `Ll` are K and S.
        """
        if name == "Any":
            return self.all
        if name in _CATEGORIES:
            found = self._set(name, lambda each: unicodedata.category(each).startswith(name))
            if ignores_case and name == "Lu":
                return self.ignoring_case(found)
            return found | self.bit("K") | self.bit("S") if ignores_case and name == "Ll" else found
        if name == "Latin":
            return self._set(name, lambda each: each.isalpha())
        if name == "Common":
            return self._set(name, lambda each: not each.isalpha())
        return 0 if name in SCRIPTS else None

    def _set(self, name: str, has: Callable[[str], bool]) -> int:
        if name not in self._known:
            # The set is built from binary digits, the last index first: a sum would copy a long integer for each
            # character.
            self._known[name] = int("".join("01"[has(character)] for character in reversed(self._ordered)) or "0", 2)
        return self._known[name]


def _folded(character: str) -> str:
    """Return the character that represents all characters that differ from it only in case."""
    folded = character.upper().lower()
    return folded if len(folded) == 1 and character != _DOTLESS else character


#: The characters of topic names.
TOPIC_CHARACTERS: Final = Characters(_ALNUM + "._-")
