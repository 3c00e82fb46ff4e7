"""SCRAM credentials as an admin gets and sets them, named as in Java's client.

Source: KIP-554; `UserScramCredentialAlteration`, `ScramCredentialInfo` in Apache Kafka.
"""

from typing import Any, Final, NamedTuple, TypeAlias

from kafkawire.sdk.client.arguments import checked_number, checked_text, given_several
from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.protocol.tables.enums import SCRAM_ITERATIONS_MIN, ScramMechanism
from kafkawire.sdk.protocol.values import quoted
from kafkawire.sdk.secret import HIDDEN, Secret

__all__ = [
    "ScramAlteration",
    "ScramCredentialInfo",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
    "UserScramCredentialsDescription",
    "checked_scram_alterations",
    "mechanism_name",
]


class ScramCredentialInfo(NamedTuple):
    """What a broker tells about a credential.

    Attributes:
        mechanism: the mechanism; a number if it is unknown here.
        iterations: the number of iterations of the hash.
    """

    mechanism: ScramMechanism | int
    iterations: int = SCRAM_ITERATIONS_MIN


class UserScramCredentialsDescription(NamedTuple):
    """The credentials of a user.

    Attributes:
        name: the user.
        credential_infos: one for each mechanism with which the user can log in.
    """

    name: str
    credential_infos: tuple[ScramCredentialInfo, ...]


class UserScramCredentialUpsertion:
    """A credential to create or replace. The password is hashed before it is sent, and is not shown.

    Args:
        user: the user.
        mechanism: the mechanism.
        password: the password.
        iterations: the number of iterations of the hash; brokers accept 4,096 to 16,384.
        salt: random bytes; None to generate them.

    Attributes:
        user, mechanism, iterations, salt: see above.
        password: the password; `reveal()` returns it.
    """

    __slots__ = ("password", "iterations", "mechanism", "salt", "user")

    def __init__(
        self,
        user: str,
        mechanism: ScramMechanism,
        password: str,
        iterations: int = SCRAM_ITERATIONS_MIN,
        salt: bytes | None = None,
    ) -> None:
        self.user = user
        self.mechanism = mechanism
        self.password = Secret(password)
        self.iterations = iterations
        self.salt = salt

    def __repr__(self) -> str:
        own = f"user={self.user!r}, mechanism={self.mechanism!r}, password={HIDDEN}, iterations={self.iterations!r}"
        return f"UserScramCredentialUpsertion({own})"


class UserScramCredentialDeletion(NamedTuple):
    """A credential to delete.

    Attributes:
        user: the user.
        mechanism: the mechanism.
    """

    user: str
    mechanism: ScramMechanism


#: A change to the credentials of a user.
ScramAlteration: TypeAlias = UserScramCredentialUpsertion | UserScramCredentialDeletion

#: The largest number of iterations to compute, which takes less than 0.1 s; brokers accept fewer.
_ITERATIONS_MAX: Final = 100_000


def mechanism_name(mechanism: ScramMechanism) -> str:
    """Return the name of a mechanism, such as `SCRAM-SHA-256`."""
    return mechanism.name.replace("_", "-")


def checked_scram_alterations(given: tuple[Any, ...]) -> list[ScramAlteration]:
    """Return alterations.

    Args:
        given: as separate arguments or as one iterable.

    Raises:
        LocalProtocolError: a value is not an alteration, a user or a password is empty, or there is no such mechanism.
    """
    return [_checked(each) for each in given_several(given, _is_alteration)]


def _checked(given: object) -> ScramAlteration:
    if not isinstance(given, UserScramCredentialUpsertion | UserScramCredentialDeletion):
        text = "expected a UserScramCredentialUpsertion or a UserScramCredentialDeletion"
        raise LocalProtocolError(f"alteration: {text}, got {type(given).__name__}")
    user = checked_text("user", given.user)
    if not user:
        raise LocalProtocolError("user: expected a name, got an empty string")
    mechanism: Any = given.mechanism
    if not isinstance(mechanism, ScramMechanism):
        names = ", ".join(each.name for each in ScramMechanism)
        text = f"expected a ScramMechanism ({names})"
        raise LocalProtocolError(f"mechanism of {user}: {text}, got {quoted(mechanism, 100)}")
    if isinstance(given, UserScramCredentialDeletion):
        return given
    checked_number(f"iterations of {user}", given.iterations, 1, _ITERATIONS_MAX)
    salt: object = given.salt
    if salt is not None and not (isinstance(salt, bytes) and salt):
        raise LocalProtocolError(f"salt of {user}: expected bytes or None, got {type(salt).__name__}")
    password: Any = given.password.reveal()
    if not isinstance(password, str):
        raise LocalProtocolError(f"password of {user}: expected a string, got {type(password).__name__}")
    if not password:
        raise LocalProtocolError(f"password of {user}: it must not be empty")
    return given


def _is_alteration(given: object) -> bool:
    return isinstance(given, UserScramCredentialUpsertion | UserScramCredentialDeletion)
