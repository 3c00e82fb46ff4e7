"""A secured broker, Apache Kafka or ours, with a superuser and users who have only the rights that tests give them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from kafkawire import AccessControlEntryFilter, AclBinding, AclBindingFilter, sync
from kafkawire.sdk.protocol.schema import Message
from tests.kafka.cleaning import until
from tests.kafka.raw_connection import RawConnection, plain
from tests.reference_broker.apis.authorization_bench import ALICE, prepare
from tests.reference_broker.apis.authorization_cases import Case, Right, answers

__all__ = ["SecureServer", "SecurityScene"]


class SecureServer(Protocol):
    """A running broker; see `SecureKafka` and `SecureBroker`."""

    @property
    def bootstrap(self) -> str:
        """The address of the listener for superusers."""
        ...

    @property
    def addresses(self) -> dict[str, str]:
        """The addresses of its listeners, keyed by security protocol."""
        ...


class SecurityScene:
    """A broker with what the cases of `authorization_cases` need, and Alice, who has no rights at first.

    Args:
        server: the broker.

    Attributes:
        server: see above.
        admin: a superuser's client.
        facts: what cases need to know.
    """

    def __init__(self, server: SecureServer) -> None:
        self.server = server
        # Every client of this listener is a superuser.
        self.admin = sync.Admin(server.bootstrap)
        self.admin.start()
        self.facts = prepare(self.ask_as_superuser, lambda is_done: until(is_done, "what the cases need exists"))

    def close(self) -> None:
        """End the superuser's client."""
        self.admin.close()

    def give_only(self, rights: Collection[Right], user: str = str(ALICE)) -> None:
        """Give a user these rights and no others; wait until the broker shows them."""
        self.admin.delete_acls(AclBindingFilter(entry_filter=AccessControlEntryFilter(user)))
        wanted = {right.of(user) for right in rights}
        if wanted:
            self.admin.create_acls(wanted)
        until(lambda: self.acls(user) == wanted, "the broker has heard about the ACLs")

    def acls(self, user: str = str(ALICE)) -> set[AclBinding]:
        """Return a user's ACLs."""
        return set(self.admin.describe_acls(AclBindingFilter(entry_filter=AccessControlEntryFilter(user))))

    @contextmanager
    def alice(self) -> Iterator[RawConnection]:
        """Yield a connection on which Alice has logged in; sessions may be short."""
        with RawConnection(self.server.addresses["SASL_PLAINTEXT"]) as connection:
            assert connection.log_in("PLAIN", plain(ALICE.name)) == [""]
            yield connection

    def response(self, case: Case) -> Message | None:
        """Return the response to Alice's request; None if the broker closes the connection."""
        with self.alice() as connection:
            found: Message | None = connection.ask(case.request(self.facts), case.version)
            return found

    def answers(self, case: Case) -> list[str]:
        """Return what the response to Alice's request says."""
        return answers(self.response(case), case.version)

    def ask_as_superuser(self, request: Message, version: int) -> Any:
        """Send a request, and return the response."""
        with RawConnection(self.server.bootstrap) as connection:
            return connection.ask(request, version)
