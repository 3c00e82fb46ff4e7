"""The values of the options that configure the authorizer.

Source: `StandardAuthorizer.configure`, `AclAuthorizer.configure` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.near_names import did_you_mean

__all__ = ["ACL_OPTIONS", "AUTHORIZERS", "read_authorizer", "read_super_users", "super_user_names"]

#: Kafka's own authorizers, which make the same decisions: that of Kafka 4, and that of Kafka 3 with ZooKeeper. A broker
#: keeps its ACLs where it keeps everything else, whichever of the two is named.
AUTHORIZERS: Final = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)

#: The options of the authorizer, with the values that change nothing.
ACL_OPTIONS: Final[Mapping[str, str]] = {"super.users": "", "allow.everyone.if.no.acl.found": "false"}


def read_authorizer(name: str, value: object) -> str:
    """Return the name of an authorizer, which is empty for none.

    Raises:
        ConfigurationError: this broker has no such authorizer.
    """
    text = str(value).strip()
    if text and text not in AUTHORIZERS:
        reason = f"this broker has the authorizers {' and '.join(AUTHORIZERS)}{did_you_mean(text, AUTHORIZERS)}"
        raise ConfigurationError(name, value, reason)
    return text


def read_super_users(name: str, value: object) -> str:
    """Return a list of principals, such as `User:admin;User:CN=broker-1`.

    Raises:
        ConfigurationError: an entry is not a principal.
    """
    text = str(value).strip()
    for principal in super_user_names(text):
        kind, colon, own = principal.partition(":")
        if not (kind and colon and own):
            reason = f"expected principals such as User:admin, separated by semicolons, but {principal!r:.80} is none"
            raise ConfigurationError(name, value, reason)
    return text


def super_user_names(text: str) -> list[str]:
    """Return the entries of a list of principals."""
    return [entry.strip() for entry in text.split(";") if entry.strip()]
