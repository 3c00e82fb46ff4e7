"""Values about credentials never show a password.

Method: tests/test_arguments.py passes wrong arguments to the methods; the tests here cover what values and errors show.
"""

from __future__ import annotations

import pickle

import pytest

from kafkawire.sdk.admin.scram_values import (
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
    checked_scram_alterations,
    mechanism_name,
)
from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.protocol.tables.enums import ScramMechanism

SHA_256 = ScramMechanism.SCRAM_SHA_256


def test_a_password_is_hidden() -> None:
    upsertion = UserScramCredentialUpsertion("alice", SHA_256, "pencil", salt=b"pepper")
    assert repr(upsertion) == (
        "UserScramCredentialUpsertion(user='alice', mechanism=<ScramMechanism.SCRAM_SHA_256: 1>, password=<hidden>, "
        "iterations=4096)"
    )
    assert upsertion.password.reveal() == "pencil"
    with pytest.raises(TypeError, match="a secret cannot be pickled"):
        pickle.dumps(upsertion)
    wrong = UserScramCredentialUpsertion("alice", SHA_256, "pencil", 0)
    with pytest.raises(LocalProtocolError) as refused:
        checked_scram_alterations((wrong,))
    assert "pencil" not in str(refused.value)


def test_arguments() -> None:
    given = [UserScramCredentialUpsertion("a", SHA_256, "pencil"), UserScramCredentialDeletion("b", SHA_256)]
    assert checked_scram_alterations((given,)) == checked_scram_alterations(tuple(given)) == given
    assert [mechanism_name(each) for each in ScramMechanism] == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    with pytest.raises(LocalProtocolError, match="password of a: it must not be empty"):
        checked_scram_alterations((UserScramCredentialUpsertion("a", SHA_256, ""),))
