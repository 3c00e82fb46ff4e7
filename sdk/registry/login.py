"""The SASL login to a ZooKeeper, as specified by the login module file (JAAS) of Java programs.

    Client {
        org.apache.zookeeper.server.auth.DigestLoginModule required
            username="kafka"
            password="secret";
    };

`kafkawire.sdk.jaas` reads the file.

Source: `DigestLoginModule` in Apache ZooKeeper.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.jaas import TEXT_CHARACTERS_MAX, read_sections
from kafkawire.sdk.secret import Secret

__all__ = ["SaslDigest", "login_of"]

#: The only login module that is supported.
_DIGEST: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"


class SaslDigest(NamedTuple):
    """A SASL login with DIGEST-MD5.

    Attributes:
        user: the user name.
        password: the user's password.
    """

    user: str
    password: Secret


def login_of(option: str, path: str, section: str) -> SaslDigest | None:
    """Return the login in a section of a login module file; None if the file has no such section.

    Args:
        option: the option that names the file, for errors.
        path: the file.
        section: the name of the section.

    Raises:
        ConfigurationError: the file cannot be read, the section has a login module other than DigestLoginModule, or the
            user name or the password is missing.
    """
    try:
        with open(path, "rb") as file:
            text = file.read(TEXT_CHARACTERS_MAX).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(option, path, f"cannot be read: {error}") from error
    try:
        entries = read_sections(text).get(section)
    except ValueError as error:
        raise ConfigurationError(option, path, str(error)) from None
    if entries is None:
        return None
    if [entry.module for entry in entries] != [_DIGEST]:
        names = ", ".join(entry.module for entry in entries) or "none"
        raise ConfigurationError(option, path, f"section {section}: expected the login module {_DIGEST}, not {names}")
    given = entries[0].options
    user, password = given.get("username"), given.get("password")
    if not user or not password:
        missing = "username" if not user else "password"
        raise ConfigurationError(option, path, f"section {section}: {missing} is missing")
    return SaslDigest(user, Secret(password))
