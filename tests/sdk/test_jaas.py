"""The notation of JAAS is read as Java reads it, and errors name the place without showing a secret.

Method: read texts in the notations that Java accepts, damaged texts, and every cut of a text; hypothesis writes options
and reads them again.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.sdk.jaas import TEXT_CHARACTERS_MAX, JaasEntry, read_entries, read_sections

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"

FILE = f"""
/* of the brokers;
   Client {{ nothing }}; */
KafkaServer {{
    {PLAIN} required
        username="admin" password="x"
        user_admin="x";
    com.sun.security.auth.module.Krb5LoginModule optional useKeyTab=true keyTab='/etc/key.tab';
}};
// to ZooKeeper
Client {{
    a.Module REQUIRED
        username=kafka  # without quotes
        password="a \\"quoted\\" }};= word";
}};
Empty {{
}};
"""


def test_sections() -> None:
    assert read_sections(FILE) == {
        "KafkaServer": [
            JaasEntry(PLAIN, "required", {"username": "admin", "password": "x", "user_admin": "x"}),
            JaasEntry(
                "com.sun.security.auth.module.Krb5LoginModule",
                "optional",
                {"useKeyTab": "true", "keyTab": "/etc/key.tab"},
            ),
        ],
        "Client": [JaasEntry("a.Module", "required", {"username": "kafka", "password": 'a "quoted" };= word'})],
        "Empty": [],
    }
    assert read_sections(" // nothing") == {}


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("", {}),
        ('a="x"', {"a": "x"}),
        ('a = "x"b="y"', {"a": "x", "b": "y"}),
        ('a="x" a="y"', {"a": "y"}),
        ("a='it is \"x\"'", {"a": 'it is "x"'}),
        ('a=""', {"a": ""}),
        ('"a b"="x"', {"a b": "x"}),
        (r'a="\"\\\/\n\t\r\f\b\a\v"', {"a": '"\\/\n\t\r\f\b\a\v'}),
        (r'a="\101\60\7\4012"', {"a": "A0\7 12"}),
        ('a="// no /* comment */ # here"', {"a": "// no /* comment */ # here"}),
        ("a/* x */=/**/x // y\n b=z", {"a": "x", "b": "z"}),
        ("a=true b=x-y_z$1.2 ", {"a": "true", "b": "x-y_z$1.2"}),
        ("user_älice='日'", {"user_älice": "日"}),
        ("a='\\\n'", {"a": "\n"}),
    ],
)
def test_options(text: str, options: dict[str, str]) -> None:
    assert read_entries(f"m Required {text};") == [JaasEntry("m", "required", options)]


def test_several_entries() -> None:
    entries = read_entries("a required; b sufficient x=y;\n")
    assert [(entry.module, entry.control_flag) for entry in entries] == [("a", "required"), ("b", "sufficient")]
    assert read_entries("  ") == []


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a required", "line 1, character 11: expected an option, or ;"),
        ("a", "line 1, character 2: expected one of required, requisite, sufficient, optional"),
        ("a s3cret;", "line 1, character 3: expected one of required"),
        ("; a", "line 1, character 1: expected a login module"),
        ("a required\n s3cret;", "line 2, character 8: expected ="),
        ("a required\n b=;", "line 2, character 4: expected a value"),
        ("a required b=1234;", "line 1, character 14: expected a word, text in quotation marks, or one of"),
        ("a required b=-x;", "line 1, character 14: expected a word"),
        ("a required b=s3cret@x;", "line 1, character 20: expected a word"),
        ("a required b=/etc/s3cret;", "line 1, character 14: unclosed comment, or a value that must be in quotation"),
        ('a required b="s3cret;', "line 1, character 14: unclosed quotation mark"),
        ('a required b="s3cret\n";', "line 1, character 14: unclosed quotation mark"),
        ("a required b='s3cret\\", "line 1, character 14: unclosed quotation mark"),
        ("a required; /* s3cret", "line 1, character 13: unclosed comment"),
        ('a required b="x" {', "line 1, character 18: expected an option, or ;"),
        ("x" * (TEXT_CHARACTERS_MAX + 1), f"the text has {TEXT_CHARACTERS_MAX + 1} characters, but at most"),
    ],
)
def test_what_cannot_be_read(text: str, place: str) -> None:
    with pytest.raises(ValueError, match=f"^{place}") as raised:
        read_entries(text)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("A { };\nA { };", "line 2, character 1: the section has occurred before"),
        ("{ };", "line 1, character 1: expected the name of a section"),
        ("A ;", "line 1, character 3: expected {"),
        ("A {\n", "line 2, character 1: expected a login module"),
        ("A { }", "line 1, character 6: expected ;"),
        ("A { m required }", "line 1, character 16: expected an option, or ;"),
    ],
)
def test_sections_that_cannot_be_read(text: str, place: str) -> None:
    with pytest.raises(ValueError, match=f"^{place}"):
        read_sections(text)


def test_every_cut_is_refused_or_read() -> None:
    whole = read_sections(FILE)
    for end in range(len(FILE)):
        try:
            sections = read_sections(FILE[:end])
        except ValueError:
            continue
        assert all(whole[name] == entries for name, entries in sections.items())


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_any_value_can_be_written(options: dict[str, str]) -> None:
    def quoted(text: str) -> str:
        escaped = "".join(f"\\{ord(each):03o}" if ord(each) < 128 else each for each in text)
        return f'"{escaped}"'

    text = " ".join(f"{quoted(name)}={quoted(value)}" for name, value in options.items())
    assert read_entries(f"m required {text};") == [JaasEntry("m", "required", options)]


def test_values_are_hidden() -> None:
    entry = JaasEntry(PLAIN, "required", {"password": "s3cret", "a": "x"})
    assert repr(entry) == str(entry) == f"JaasEntry('{PLAIN}', 'required', options=['a', 'password'])"
