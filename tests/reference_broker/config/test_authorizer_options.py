"""The options of the authorizer accept what Kafka's authorizers accept, and refuse other authorizers.

Method: read options from text, as from a configuration file.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.config.authorizer_options import AUTHORIZERS, super_user_names
from kafkawire.reference_broker.config.options import read_options
from kafkawire.sdk.errors import ConfigurationError


@pytest.mark.parametrize("name", ["", " ", *AUTHORIZERS, f" {AUTHORIZERS[0]} "])
def test_authorizers(name: str) -> None:
    assert read_options({"authorizer.class.name": name}).authorizer_class_name == name.strip()


def test_another_authorizer_is_refused() -> None:
    with pytest.raises(
        ConfigurationError, match=r"this broker has the authorizers org.* and kafka.*did you mean kafka"
    ):
        read_options({"authorizer.class.name": "kafka.security.auth.AclAuthorizer"})
    with pytest.raises(ConfigurationError, match="this broker has the authorizers"):
        read_options({"authorizer.class.name": "com.example.Authorizer"})


def test_super_users() -> None:
    options = read_options({"super.users": " User:a ;;User:CN=b,C=d:e;"})
    assert super_user_names(options.super_users) == ["User:a", "User:CN=b,C=d:e"]
    assert super_user_names(read_options({}).super_users) == []


@pytest.mark.parametrize("text", ["alice", "User:", ":alice", "User:a;bob"])
def test_a_superuser_that_is_no_principal(text: str) -> None:
    with pytest.raises(ConfigurationError, match="separated by semicolons"):
        read_options({"super.users": text})
