"""A login is parsed in the form that Java clients accept; any other form is refused, without being shown."""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import ConfigurationError

pytest.importorskip("pyarrow")

from kafkawire.sdk.spark.logins import parse_login, with_login

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "kafkashaded.org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.mark.parametrize(
    ("text", "user", "password"),
    [
        (f'{PLAIN} required username="me" password="secret";', "me", "secret"),
        (f"  {SCRAM}  required\n  password=secret\n  username=me ; ", "me", "secret"),
        (f'{PLAIN} required username="" password="a b;c=\\"d\\" \\\\e";', "", 'a b;c="d" \\e'),
    ],
)
def test_login(text: str, user: str, password: str) -> None:
    assert parse_login("o", text) == {"sasl_username": user, "sasl_password": password}


@pytest.mark.parametrize(
    "text",
    [
        "",
        f'{PLAIN} required username="me" password="secret"',
        f'{PLAIN} optional username="me" password="secret";',
        f'{PLAIN} required username="me" username="me";',
        f'{PLAIN} required username="me";',
        f'{PLAIN} required username="me" password="secret" more="secret";',
        f'{PLAIN} required username="me" password="secret"password="secret";',
        f'{PLAIN} required username="me" password="secret;',
        'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="secret";',
        f'{PLAIN} required username="me" password="{"secret" * 2000}";',
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_login("kafka.sasl.jaas.config", text)
    assert str(caught.value).startswith("kafka.sasl.jaas.config=<hidden>: expected PlainLoginModule or Scram")
    assert "secret" not in str(caught.value)


def test_among_the_options_of_a_client() -> None:
    login = f'{PLAIN} required username="me" password="secret";'
    assert with_login({"acks": "1"}) == {"acks": "1"}
    assert with_login({"acks": "1", "sasl.jaas.config": login}) == {
        "acks": "1",
        "sasl_username": "me",
        "sasl_password": "secret",
    }
    with pytest.raises(ConfigurationError, match=r"config=<hidden>: sasl_username is also given$"):
        with_login({"sasl.jaas.config": login, "sasl_username": "you"})
