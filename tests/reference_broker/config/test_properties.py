"""Properties files are read as Java reads them.

Method: a table of lines; what is written is read back.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.config.properties import Property, parse_properties, properties_text


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("", []),
        ("# a comment\n! another\n\n   \t\f\n", []),
        ("a=1", [("a", "1", "=")]),
        ("  a = 1 ", [("a", "1 ", "=")]),
        ("a:1", [("a", "1", ":")]),
        ("a 1 2", [("a", "1 2", "")]),
        ("a", [("a", "", "")]),
        ("a=", [("a", "", "=")]),
        ("=1", [("", "1", "=")]),
        ("a==1", [("a", "=1", "=")]),
        ("a = b = c", [("a", "b = c", "=")]),
        (r"a\=b\ c\:d=1", [("a=b c:d", "1", "=")]),
        (r"a=\u0041\t\n\\\q", [("a", "A\t\n\\q", "=")]),
        (r"a=\\u0041", [("a", r"\u0041", "=")]),
        ("a=1\r\nb=2\rc=3\n", [("a", "1", "="), ("b", "2", "="), ("c", "3", "=")]),
        ("a=1,\\\n    2,\\\r\n3", [("a", "1,2,3", "=")]),
        ("a=1\\\n# not a comment", [("a", "1# not a comment", "=")]),
        ("a=1\\\\\nb=2", [("a", "1\\", "="), ("b", "2", "=")]),
        ("a=1\\", [("a", "1", "=")]),
        ("# a comment\\\na=1", [("a", "1", "=")]),
        ("a=1\na=2", [("a", "1", "="), ("a", "2", "=")]),
    ],
)
def test_entries(text, entries):
    assert [entry[1:] for entry in parse_properties(text)] == entries


def test_entries_say_where_they_begin():
    text = "# first\na=1\n\nb=2\\\n  more\nc=3"
    assert parse_properties(text) == [
        Property(2, "a", "1", "="),
        Property(4, "b", "2more", "="),
        Property(6, "c", "3", "="),
    ]


@pytest.mark.parametrize("text", [r"a=1\u12", r"a=\u", r"a=\\\uxyzw", r"\u00g0=1"])
def test_what_java_refuses(text):
    with pytest.raises(ValueError, match=r"line 2: .*four hexadecimal"):
        parse_properties("a=1\n" + text)


def test_what_is_written_is_read():
    given = {" a b ": " v w ", "#c": "!d", "e=f:g": "\\\n\r\t\f", "h": "", "\u00e9\u2028": "\u0085\U0001f600"}
    assert {entry.name: entry.value for entry in parse_properties(properties_text(given))} == given
    assert properties_text({"b": 2, "a": "x"}) == "a=x\nb=2\n"
