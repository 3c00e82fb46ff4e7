"""Principals of Kerberos are translated as Kafka translates them.

Method: translate the examples of Kafka's own tests and documentation, and read rules with one mistake each.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.security.sasl.kerberos_names import (
    KerberosName,
    NoShortName,
    ShortNames,
    parse_kerberos_name,
)

KAFKA_RULES = [
    r"RULE:[1:$1](App\..*)s/App\.(.*)/$1/g",
    r"RULE:[2:$1](App\..*)s/App\.(.*)/$1/g",
    "DEFAULT",
]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("App.service-name/example.com@REALM.COM", KerberosName("App.service-name", "example.com", "REALM.COM")),
        ("App.service-name@REALM.COM", KerberosName("App.service-name", None, "REALM.COM")),
        ("user/host@REALM.COM", KerberosName("user", "host", "REALM.COM")),
        ("alice", KerberosName("alice")),
        ("alice/host", KerberosName("alice/host")),
        ("alice@", KerberosName("alice", None, "")),
    ],
)
def test_names(text: str, name: KerberosName) -> None:
    assert parse_kerberos_name(text) == name
    assert str(name) == text


@pytest.mark.parametrize("text", ["a/b/c@R", "a@b@c", "a@b/c"])
def test_names_of_another_form(text: str) -> None:
    with pytest.raises(ValueError, match="is not a name of Kerberos"):
        parse_kerberos_name(text)


@pytest.mark.parametrize(
    ("rules", "name", "short"),
    [
        (KAFKA_RULES, "App.service-name/example.com@REALM.COM", "service-name"),
        (KAFKA_RULES, "App.service-name@REALM.COM", "service-name"),
        (KAFKA_RULES, "user/host@REALM.COM", "user"),
        (["DEFAULT"], "alice@REALM.COM", "alice"),
        (["DEFAULT"], "alice", "alice"),
        ([r"RULE:[1:$1@$0](.*@OTHER)s/@.*//"], "alice@OTHER", "alice"),
        (["RULE:[1:$1]/L"], "User@OTHER", "user"),
        (["RULE:[2:$1]/U"], "Test/host@OTHER", "TEST"),
        (["RULE:[2:$1](Test.*)s/ABC///L", "RULE:[2:$2]"], "TestABC/host@OTHER", "test"),
        (["RULE:[1:$1]s/A/b/"], "AAA@OTHER", "bAA"),
        (["RULE:[1:$1]s/A/b/g"], "AAA@OTHER", "bbb"),
        (["RULE:[1:$1]s/(a)(b)?/$2\\$$1/"], "a@OTHER", "$a"),
        (["RULE:[1:x$1y$1]"], "a@OTHER", "xaya"),
        (["RULE:[1:all]"], "a@OTHER", "all"),
        (["RULE:[2:$1.$2]"], "a/b@OTHER", "a.b"),
        (["RULE:[3:$1]", "RULE:[1:$1]"], "a@OTHER", "a"),
        (["RULE:[1:$0]"], "a@OTHER", "OTHER"),
        (["RULE:[000000001:$000000001]"], "a@OTHER", "a"),
    ],
)
def test_short_names(rules: list[str], name: str, short: str) -> None:
    assert ShortNames(rules, "REALM.COM").short_name(parse_kerberos_name(name)) == short


@pytest.mark.parametrize(
    ("rules", "name", "reason"),
    [
        (["DEFAULT"], "alice@OTHER", "no rule applies to alice@OTHER"),
        (KAFKA_RULES, "user/host@OTHER", "no rule applies to user/host@OTHER"),
        ([], "alice@OTHER", "no rule applies"),
        (["RULE:[1:$1@$0]"], "alice@OTHER", "'alice@OTHER', which is not a short name"),
        (["RULE:[2:$1/$2]"], "a/b@OTHER", "'a/b', which is not a short name"),
        (["RULE:[1:$2]"], "alice@OTHER", "refers to \\$2, but a name has the parts 0 to 1"),
        (["RULE:[1:$]"], "alice@OTHER", "refers to \\$, but"),
        (["RULE:[1:$1000000001]"], "alice@OTHER", "refers to \\$1000000001, but"),
        (["RULE:[1:$" + "9" * 5000 + "]"], "alice@OTHER", "refers to \\$9{20}, but"),
        (["RULE:[999999999:$1]"], "alice@OTHER", "no rule applies"),
        (["RULE:[1:$1]s/a/$1/"], "alice@OTHER", "refers to the group \\$1, which does not exist"),
        (["RULE:[1:$1]s/a/$x/"], "alice@OTHER", "invalid replacement"),
        (["RULE:[1:$1]s/a/\\/"], "alice@OTHER", "invalid replacement"),
    ],
)
def test_names_without_a_short_name(rules: list[str], name: str, reason: str) -> None:
    with pytest.raises(NoShortName, match=reason):
        ShortNames(rules, "REALM.COM").short_name(parse_kerberos_name(name))


@pytest.mark.parametrize(
    "rule",
    [
        "default",
        "DEFAULT/L",
        "RULE:[:$1]",
        "RULE:[1000000001:$1]",
        "RULE:[" + "1" * 5000 + ":$1]",
        "RULE:[1:$1",
        "RULE:[1:$1]/l",
        "RULE:[1:$1](a",
        "RULE:[1:$1]s/a/b",
        "RULE:[1:$1]s/(/b/",
        "RULE:[1:$1](*)",
        "RULE: [1:$1]",
        "",
    ],
)
def test_rules_of_another_form(rule: str) -> None:
    with pytest.raises(ValueError, match=r"is neither DEFAULT nor a rule|has no usable number|has an invalid regular"):
        ShortNames([rule], "REALM.COM")
