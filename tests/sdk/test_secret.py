"""Only `reveal` shows a secret, and errors do not show values that may be secrets.

Method: try every way in which Python can turn an object into text or bytes, and tables of names, including misspelt
ones.
"""

from __future__ import annotations

import copy
import json
import pickle
import traceback

import pytest

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.secret import HIDDEN, Secret, SecretBytes, SecretText, revealed, shown

SECRET = Secret("hunter2")


@pytest.mark.parametrize("text", [str(SECRET), repr(SECRET), f"{SECRET}", f"{SECRET!r}", f"{[SECRET]}"])
def test_text(text: str) -> None:
    assert "hunter2" not in text
    assert HIDDEN in text


def test_reveal() -> None:
    assert SECRET.reveal() == "hunter2"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_it_is_not_pickled(protocol: int) -> None:
    with pytest.raises(TypeError, match="a secret cannot be pickled"):
        pickle.dumps({"sasl_password": SECRET}, protocol)


def test_text_among_other_values_is_hidden_but_like_any_other() -> None:
    text = SecretText("hunter2")
    assert {str(text), repr(text), f"{text}", f"{text!r}", format(text)} == {HIDDEN}
    assert (f"{text:>10}", f"{[text]}") == (f"  {HIDDEN}", f"[{HIDDEN}]")
    assert ("hunter2" in {text}, json.dumps(text), text.encode()) == (True, '"hunter2"', b"hunter2")
    for plain in (revealed(text), revealed("hunter2"), Secret(text).reveal()):
        assert (type(plain), plain) == (str, "hunter2")
    with pytest.raises(TypeError, match="a secret cannot be pickled"):
        pickle.dumps(text)


def test_it_has_no_attributes_to_dump() -> None:
    assert not hasattr(SECRET, "__dict__")
    with pytest.raises(TypeError, match="not JSON serializable"):
        json.dumps(SECRET)


def test_copies_are_the_same_object() -> None:
    assert copy.copy(SECRET) is SECRET
    assert copy.deepcopy({"password": SECRET})["password"] is SECRET


def test_equality() -> None:
    assert Secret("hunter2") == SECRET
    assert hash(Secret("hunter2")) == hash(SECRET)
    assert Secret("other") != SECRET
    assert SECRET != "hunter2"


@pytest.mark.parametrize(
    "name",
    [
        *("sasl_password", "sasl.password", "SASL_PASSWORD", "sasl_pasword", "sasl_psswrod", "passphrase", "pwd"),
        *("ssl_key_password", "ssl_keystore_key", "ssl.keystore.pwrd", "sasl.jaas.config", "sasl_oauthbearer_token"),
        *("listener.name.x.sasl.server.max.receive.size", "x" * 1_000),
        *("client_secret", "aws_credentials", "client_pem", "private_exponent"),
    ],
)
def test_values_that_are_hidden(name: str) -> None:
    assert shown(name, "hunter2") == HIDDEN
    assert "hunter2" not in str(ConfigurationError(name, "hunter2", "no such option"))


@pytest.mark.parametrize(
    "name",
    [
        *("acks", "security_protocol", "key_deserializer", "sasl_mechanism", "sasl.mechanism", "sasl_username"),
        *("ssl.truststore.location", "ssl_truststore_type", "sasl_kerberos_service_name"),
        "listener.name.sasl_ssl.ssl.truststore.location",
    ],
)
def test_values_that_are_shown(name: str) -> None:
    assert shown(name, "text") == "'text'"


def test_numbers_that_python_does_not_write_are_shown_by_their_size() -> None:
    assert shown("acks", 10**5_000) == "a number of 16610 bits"
    assert shown("acks", (10**5_000,)) == "<tuple>"


def test_a_missing_value_is_no_secret() -> None:
    assert shown("sasl_password", None) == "None"


def test_an_error_holds_no_copy() -> None:
    error = ConfigurationError("sasl_pasword", "hunter2", "no such option")
    assert b"hunter2" not in pickle.dumps(error)
    assert "hunter2" not in "".join(traceback.format_exception(error))
    assert "hunter2" not in repr(error)
    assert "hunter2" not in str(vars(error))


def test_secret_bytes_are_like_others_but_not_shown() -> None:
    secret = SecretBytes(b"hunter2")
    assert secret == b"hunter2"
    keyed: dict[bytes, int] = {secret: 1}
    assert keyed[b"hunter2"] == 1
    assert type(bytes(secret)) is bytes
    for text in (repr(secret), str(secret), f"{secret}", repr({"key": [secret]})):
        assert "hunter2" not in text
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps([secret])
