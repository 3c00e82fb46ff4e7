"""A mechanism for tests: PLAIN's message, or several tokens before the last, and whatever identity the test wants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest

from kafkawire.reference_broker.metadata.principal import USER, KafkaPrincipal
from kafkawire.reference_broker.network import doors
from kafkawire.reference_broker.security.credentials import ScramCredentials, TokenCredentials
from kafkawire.reference_broker.security.sasl.mechanism import Identity, InvalidCredentials, LoginAborted, LoginRefused
from kafkawire.reference_broker.security.sasl.mechanisms import Mechanism
from kafkawire.sdk.errors import ConfigurationError

__all__ = ["PASSWORDS", "Played", "offered_as_plain"]

PASSWORDS = {"admin": "admin-secret", "alice": "alice-secret"}


class Played:
    """An exchange in which the client sends `user`, then `password`; or both at once, in the form of PLAIN.

    Args:
        expires_ms: when the credentials expire; None for never.
    """

    def __init__(self, expires_ms: int | None = None) -> None:
        self.identity: Identity | None = None
        self._expires_ms = expires_ms
        self._user = ""

    def respond(self, response: bytes, now_ms: int) -> bytes:
        text = response.decode()
        if "\0" in text:
            _, self._user, text = text.split("\0")
        elif not self._user:
            self._user = text
            return b"password?"
        match text:
            case "defect":
                raise RuntimeError("the password is defect")
            case "abort":
                raise LoginAborted("aborted")
            case "guess":
                raise InvalidCredentials("PLAIN", "no such user")
        if PASSWORDS.get(self._user) != text:
            raise LoginRefused("Authentication failed: Invalid username or password", f"{self._user} is refused")
        self.identity = Identity(KafkaPrincipal(USER, self._user), self._expires_ms, self._user == "alice")
        return b""


@contextmanager
def offered_as_plain(begin: Callable[[], Played] = Played) -> Iterator[list[Mapping[str, str]]]:
    """Let listeners offer the played mechanism under the name PLAIN; yield the settings that it is given."""
    given: list[Mapping[str, str]] = []

    def new_exchange(
        mechanism: str,
        settings: Mapping[str, str],
        scram: ScramCredentials,
        tokens: TokenCredentials | None,
        listener: str,
    ) -> Mechanism:
        if mechanism != "PLAIN":
            raise ConfigurationError("sasl.enabled.mechanisms", mechanism, "expected some of PLAIN")
        if "sasl.jaas.config" not in settings:
            raise ConfigurationError("sasl.jaas.config", None, "required for PLAIN")
        given.append(settings)
        return Mechanism(mechanism, begin)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(doors, "new_exchange", new_exchange)
        yield given
