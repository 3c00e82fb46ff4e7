"""The login to a ZooKeeper is found in a login module file, and errors say what is wrong with it.

Method: read files with one or more sections, and files that lack something; the tests of `kafkawire.sdk.jaas` check the
notation.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.registry.login import SaslDigest, login_of
from kafkawire.sdk.secret import Secret

DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule"

SHARED = f"""
/* of the brokers;
   Client {{ nothing }}; */
KafkaServer {{
    org.apache.kafka.common.security.plain.PlainLoginModule required
        username="admin" password="x"
        user_admin="x";
    com.sun.security.auth.module.Krb5LoginModule optional useKeyTab=true keyTab='/etc/key.tab';
}};
// to ZooKeeper
Client {{
    {DIGEST} REQUIRED
        username=kafka  # without quotes
        password="a \\"quoted\\" }};= word";
}};
"""


def login(folder: Path, text: str, section: str = "Client") -> SaslDigest | None:
    path = folder / "jaas.conf"
    path.write_text(text)
    return login_of("the_file", str(path), section)


def test_the_section_of_a_shared_file(tmp_path: Path) -> None:
    assert login(tmp_path, SHARED) == SaslDigest("kafka", Secret('a "quoted" };= word'))
    assert login(tmp_path, SHARED, "Other") is None
    assert login(tmp_path, "") is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (SHARED.replace("Client {\n", "Ticket {\n"), None),
        (
            "Client { com.sun.security.auth.module.Krb5LoginModule required; };",
            "section Client: expected the login module .*Krb5Login",
        ),
        ("Client { };", "section Client: expected the login module .*, not none"),
        (f'Client {{ {DIGEST} required password="x"; }};', "section Client: username is missing"),
        (f'Client {{ {DIGEST} required username="x" password=""; }};', "section Client: password is missing"),
        (f"Client {{\n {DIGEST} needed; }};", "line 2, character 53: expected one of required, requisite"),
    ],
)
def test_what_cannot_be_used(tmp_path: Path, text: str, reason: str | None) -> None:
    if reason is None:
        assert login(tmp_path, text) is None
        return
    with pytest.raises(ConfigurationError, match=rf"^the_file=.*jaas\.conf': {reason}") as raised:
        login(tmp_path, text)
    assert "secret" not in str(raised.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"^the_file='.*none': cannot be read: .*No such file"):
        login_of("the_file", str(tmp_path / "none"), "Client")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        login_of("the_file", str(tmp_path / "binary"), "Client")
