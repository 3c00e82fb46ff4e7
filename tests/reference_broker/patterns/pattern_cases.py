"""Regular expressions with Apache Kafka's results: the names that match as a whole, or the reason for a refusal.

The results come from RE2/J 1.8, with which Apache Kafka 4.3.0 compiles expressions; `tests/kafka/Patterns.java` prints
them, and `tests/kafka/test_topic_patterns.py` verifies them. Ours differ in two cases: RE2/J reports a surplus `)` as
an internal error, and ignores the case of a capital letter with which all alternatives begin.
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["NAMES", "OWN_MATCHES", "OWN_WORDS", "answers"]

_ALL = "a A ab aB b ba aa aaa aab abc a.b a-b a_b a1 1 12 k K kk s S sk . - _ .a a. orders orders-1 Orders"

NAMES = _ALL.split()

#: The names that match in the reference broker, for expressions that Kafka gets wrong.
OWN_MATCHES = {"A[bc]|(?i:a)b": frozenset({"ab"})}

#: The reference broker's own messages, in place of Kafka's.
OWN_WORDS = {"regexp/syntax: internal error": "missing opening ("}


def _but(names: str) -> str:
    """Return all names except the given ones."""
    return " ".join(name for name in NAMES if name not in names.split())


#: The names that match, keyed by expression.
_MATCHES = {
    # Literals and other basics.
    "a": "a",
    "a|b": "a b",
    "a|": "a",
    "|a": "a",
    "a||b": "a b",
    "()": "",
    "(a|b)*": "a ab b ba aa aaa aab",
    "a*b": "ab b aab",
    "a+": "a aa aaa",
    "a?b": "ab b",
    "(?:ab?)+": "a ab aa aaa aab",
    ".*": _but(""),
    "a.b": "aab a.b a-b a_b",
    r"a\.b": "a.b",
    "orders.*": "orders orders-1",
    "[ab]+": "a ab b ba aa aaa aab",
    "[^a]+": _but("a ab aB ba aa aaa aab abc a.b a-b a_b a1 .a a."),
    "^a$": "a",
    "a^b": "",
    "a$b": "",
    "^*a": "a",
    "(?:^)*a": "a",
    "(|a)+": "a aa aaa",
    "(a|ab)(c|bc)?": "a ab abc",
    "(?:a{0}){1000}": "",
    # Escapes.
    r"\A\w+\z": _but("a.b a-b . - .a a. orders-1"),
    r"\Ba": "",
    r"a\b.*": "a a.b a-b a.",
    r"a\B.*": "ab aB aa aaa aab abc a_b a1",
    r"\b\w\b": "a A b 1 k K s S _",
    r"a\b[-.]\bb": "a.b a-b",
    r"\d\D?": "1",
    r"\s|\S\S": "ab aB ba aa a1 12 kk sk .a a.",
    r"\W+": ". -",
    r"\x61": "a",
    r"\x{61}": "a",
    r"\x{0000000000061}": "a",
    r"\x{10FFFF}|a": "a",
    r"\141": "a",
    r"\0|a": "a",
    r"\061": "1",
    r"\08|a": "a",
    r"\400|a": "a",
    r"\a|\f|\n|\r|\t|\v|a": "a",
    r"\-": "-",
    r"\_": "_",
    r"\%|a": "a",
    r"\é|a": "a",
    # Quotations.
    r"\Qa.b\E": "a.b",
    r"\Qa.": "a.",
    r"\Qa\E*": "a aa aaa",
    r"a\Q\E*": "a aa aaa",
    r"\Qab\E+": "ab",
    r"a*\Q\E*": "a aa aaa",
    r"\Q*\E": "",
    r"a\Q\E": "a",
    r"(?i)\QAB\E": "ab aB",
    r"\Q\Q\E|a": "a",
    "\\Qa\\": "",
    # Classes.
    "[[:alpha:]]+": _but("a.b a-b a_b a1 1 12 . - _ .a a. orders-1"),
    "[[:^alpha:]]+": "1 12 . - _",
    "[^[:alpha:]]+": "1 12 . - _",
    "[[:alpha:][:digit:]]+": _but("a.b a-b a_b . - _ .a a. orders-1"),
    "[[:upper:]a]+": "a A aB aa aaa K S",
    "[[:punct:]]": ". - _",
    "[[:graph:]]": "a A b 1 k K s S . - _",
    "[[:word:]]+": _but("a.b a-b . - .a a. orders-1"),
    "[[:xdigit:]]+": "a A ab aB b ba aa aaa aab abc a1 1 12",
    "[[:blank:][:cntrl:][:space:]]|a": "a",
    "[[:ascii:]]": "a A b 1 k K s S . - _",
    "[[:print:]]": "a A b 1 k K s S . - _",
    "[[:alnum:]]+": _but("a.b a-b a_b . - _ .a a. orders-1"),
    "[[:lower:]]+": "a ab b ba aa aaa aab abc k kk s sk orders",
    "[:alpha:]": "a",
    "[[:alpha]": "a",
    "[[:alpha]]": "",
    "[[.a.]]": "",
    "[[=a=]]": "",
    "[]a]": "a",
    "[^]a]": "A b 1 k K s S . - _",
    "[-a]": "a -",
    "[a-]": "a -",
    "[a-b-c]": "a b -",
    "[+--]": "-",
    "[--.]": ". -",
    r"[\d-a]+": "a aa aaa a1 1 12 -",
    "[[:digit:]-a]+": "a aa aaa a1 1 12 -",
    r"[\w.]+": _but("a-b - orders-1"),
    r"[^\w]": ". -",
    r"[\W]": ". -",
    r"[\-_]": "- _",
    r"[\x61-\x{63}]+": "a ab b ba aa aaa aab abc",
    r"[\141-\142]": "a b",
    r"[\]a]": "a",
    r"[^\x00-\x{10FFFF}]|a": "a",
    r"[^\x{0}-\x{10FFFF}]": "",
    "[a&&b]": "a b",
    "[a||b]": "a b",
    "[a~~b]": "a b",
    "[[a]": "a",
    "[[a]b]": "",
    # Unicode.
    r"\pL+": _but("a.b a-b a_b a1 1 12 . - _ .a a. orders-1"),
    r"\PL+": "1 12 . - _",
    r"\pN": "1",
    r"\p{L}+": _but("a.b a-b a_b a1 1 12 . - _ .a a. orders-1"),
    r"\P{L}+": "1 12 . - _",
    r"\p{^L}+": "1 12 . - _",
    r"\P{^L}+": _but("a.b a-b a_b a1 1 12 . - _ .a a. orders-1"),
    r"\p{Lu}": "A K S",
    r"\p{Ll}+": "a ab b ba aa aaa aab abc k kk s sk orders",
    r"[\p{Lu}\pN]": "A 1 K S",
    r"[^\pL]": "1 . - _",
    r"\p{Pd}": "-",
    r"\p{Pc}": "_",
    r"\p{Po}": ".",
    r"\pP": ". - _",
    r"\pS|a": "a",
    r"\pZ|a": "a",
    r"\pC|a": "a",
    r"\pM|a": "a",
    r"\p{Any}": "a A b 1 k K s S . - _",
    r"\P{Any}|a": "a",
    r"\p{Latin}+": _but("a.b a-b a_b a1 1 12 . - _ .a a. orders-1"),
    r"\p{Greek}|a": "a",
    r"\P{Greek}": "a A b 1 k K s S . - _",
    r"\p{Common}": "1 . - _",
    r"\p{Inherited}|a": "a",
    r"\p{Han}|a": "a",
    r"\p{Nko}|a": "a",
    r"\p{Unknown}|a": "a",
    # Groups and flags.
    "(a)(b)": "ab",
    "(?:a)b": "ab",
    "(?P<n>a)b": "ab",
    "(?<n>a)b": "ab",
    "(?P<n_1>a)": "a",
    "(?<1>a)": "a",
    "(?i)AB": "ab aB",
    "(?i:a)B": "aB",
    "(?i:A)b": "ab",
    "a(?i)b": "ab aB",
    "(a(?i)b)b?": "ab aB",
    "(?i)a(?-i)b": "ab",
    "(?i)[a]+": "a A aa aaa",
    "(?i)[^a]": "b 1 k K s S . - _",
    "(?i)[A-B]+": "a A ab aB b ba aa aaa aab",
    "(?i)[[:upper:]]": "a A b k K s S",
    "(?i)[[:^upper:]]": "1 . - _",
    r"(?i)\p{Lu}": "a A b k K s S",
    r"(?i)\P{Lu}": "1 . - _",
    r"(?i)\p{Ll}": "a b k K s S",
    r"(?i)\P{Ll}": "A 1 . - _",
    r"(?i)[\p{Ll}]": "a b k K s S",
    r"(?i)[\p{Ll}a-b]": "a A b k K s S",
    r"(?i)[^\p{Ll}]": "A 1 . - _",
    r"(?i)\x{212A}": "k K",
    r"(?i)\x{17F}\x{212A}?": "s S sk",
    r"(?i)[\x{212A}]+": "k K kk",
    r"\x{212A}": "",
    r"(?i)[^\x{212A}]": "a A b 1 s S . - _",
    r"[^\W\d]+": _but("a.b a-b a1 1 12 . - .a a. orders-1"),
    r"(?i)[^\W\d]+": _but("a.b a-b a1 1 12 . - .a a. orders-1"),
    "(?i)K|a": "a A k K",
    "a|(?i)k": "a k K",
    "(?:a|(?i)k)s": "",
    "A[bc]|(?i:a)b": "",
    "(?s).": "a A b 1 k K s S . - _",
    "(?m)^a$": "a",
    "(?m).": "a A b 1 k K s S . - _",
    "(?U)a+": "a aa aaa",
    "(?ims)A": "a A",
    "(?ii)A": "a A",
    "(?)a": "a",
    "(?i-s)A": "a A",
    "(?i-i)A": "A",
    "(?-i)A": "A",
    "(?s-i:A)": "A",
    "(?imsU-imsU)A": "A",
    "(?-i:A)": "A",
    # Repetitions.
    "a{2}": "aa",
    "a{2,}": "aa aaa",
    "a{1,2}": "a aa",
    "a{0}": "",
    "a{0}b": "b",
    "a{,2}": "",
    "a{0,2}b?": "a ab b aa aab",
    "a{2}?": "aa",
    "a*?": "a aa aaa",
    "a+?b": "ab aab",
    "a??b": "ab b",
    "a{01}": "",
    "a{1,02}": "",
    "a{1": "",
    "a{1,": "",
    "a{": "",
    "a{}": "",
    "a{ 1}": "",
    "a{a}": "",
    "a{-1}": "",
    "a{1,2,3}": "",
    "a{1000}": "",
    "a{1,1000}": "a aa aaa",
    "a{0,1000}b": "ab b aab",
    "{": "",
    "{a": "",
    "{,2}": "",
    "{{": "",
    "{a*": "",
    "a{,2}*": "",
    "a(?i)*b": "ab aB b aab",
    "a*(?i)*b": "ab aB b aab",
    "ab(?i)*": "a ab",
    "a*(?:)*b": "ab b aab",
    "(?:)*a": "a",
    "()+a": "a",
    "^+a": "a",
    r"\b*a": "a",
    "$?a": "a",
    "(a*)*": "a aa aaa",
    "(a*)+b": "ab b aab",
    "(?:a?){3}b": "ab b aab",
    "(?:a|b){2,3}": "ab ba aa aaa aab",
    "(?:a{2}){2}|a": "a",
    # Malformed expressions.
    "a\nb": "",
    "a b": "",
    "a#b": "",
    "é|a": "a",
    "\u212a": "",
    "]": "",
    "}": "",
    "a}": "",
    "a]|a": "a",
    ",": "",
    "a/b": "",
}

#: Refused expressions, keyed by reason.
_REFUSED = {
    "invalid escape sequence": [
        r"\Aa\Z", r"\x6", r"\x", r"\x{}", r"\x{110000}", r"\x{61", r"\1", r"(a)\1", r"\8", r"\C", r"\E", r"\G", r"\K",
        r"\N", r"\R", r"\X", r"\e", r"\h", r"\cA", r"\u0061", r"\k<n>", r"\gn", r"[a-\d]", r"[\b]", r"[\A]", r"[\z]",
        r"[\Qa\E]", r"[\q]",
    ],
    "trailing backslash at end of expression": [
        "\\", "[\\", "a\\",
    ],
    "invalid character class range": [
        "[[:foo:]]", "[[:Alpha:]]", "[[:^^alpha:]]", "[[:]]", "[[:a]x:]", "[b-a]", "[a--b]", r"\p", r"\pX", r"\p{}",
        r"\p{^}", r"\p^L", r"\p{L", r"\p{l}", r"\p{greek}", r"\p{IsGreek}", r"\p{Cn}", r"\p{L&}", r"\p{LC}",
        r"\p{Letter}", r"\p{Script=Greek}", r"\p{Alpha}", r"\p{ L}", r"\p{Zanb}", r"\p{Adlam}",
    ],
    "missing closing ]": [
        "[]", "[^]", "[", "[a", "[a-", "[a-b", "[a-z",
    ],
    "duplicate capture group name": [
        "(?P<n>a)(?P<n>b)", "(?P<n>a)(?<n>b)",
    ],
    "invalid named capture": [
        "(?P<>a)", "(?P<a-b>c)", "(?P<n", "(?<=a)b", "(?<!a)b", "(?<=a>b)c",
    ],
    "invalid or unsupported Perl syntax": [
        "(?P=n)", "(?P>n)", "(?'n'a)", "(?&n)", "(?R)", "(?1)", "(?i-)A", "(?-)a", "(?-:a)", "(?--i)a", "(?i--s)a",
        "(?^i)a", "(?x)a", "(?a)a", "(?L)a", "(?u)a", "(?d)a", "(?n)a", "(?i", "(?", "(?=a)b", "(?!a)b", "(?#c)a",
        "(?>a)", "(?|a)", "(?(1)a|b)",
    ],
    "missing closing )": [
        "(?i:a", "(a", "((a)", "(",
    ],
    "missing argument to repetition operator": [
        "(*ACCEPT)a", "{2}", "a|{2}", "({2})", "*", "+", "?", "*a", "a|*", "(*a)", "(|*a)", "(?i)*",
    ],
    "regexp/syntax: internal error": [
        "a)", "(a))", ")",
    ],
    "invalid nested repetition operator": [
        "a{1}{2}", "{*", "{+", "{?", "a{*", "{{2}", "a**", "a*+", "a++", "a?+", "a*??", "a{2}*", "a*{2}", "a+{2}?",
    ],
    "invalid repeat count": [
        "a{2,1}", "a{1001}", "a{0,1001}", "a{1001,}", "a{99999999}", "a{999999999}", "a{99999999999999999999}",
    ],
}  # fmt: skip


def answers() -> Iterator[tuple[str, frozenset[str] | str]]:
    """Return each expression with the names that match, or with the reason why it is refused."""
    for text, names in _MATCHES.items():
        yield text, frozenset(names.split())
    for reason, texts in _REFUSED.items():
        for text in texts:
            yield text, reason
