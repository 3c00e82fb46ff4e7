"""The coordinators of groups and transactional ids, which are looked up on demand and forgotten after certain errors.

Source: Kafka protocol guide, "FindCoordinator"; KIP-699 (several keys in one request).
"""

from __future__ import annotations

from collections.abc import Callable

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.routing.call import ANY_BROKER, Call, Coordinator
from kafkawire.sdk.routing.requests import coordinator, find_coordinator
from kafkawire.sdk.routing.retry import outdates_coordinator
from kafkawire.sdk.transport.driver_interface import Versions
from kafkawire.sdk.transport.wire import Address

__all__ = ["Coordinators"]


class Coordinators:
    """The coordinators that one client knows.

    Args:
        submit: sends a lookup.
        not_found: called when a lookup has failed, to fail the calls that wait for the coordinator.
        timeout_ms: how long a lookup may take, including retries.
    """

    def __init__(
        self,
        submit: Callable[[Call, int], None],
        not_found: Callable[[Coordinator, KafkaWireError, int], None],
        timeout_ms: int,
    ) -> None:
        self._submit = submit
        self._not_found = not_found
        self._timeout_ms = timeout_ms
        self._known: dict[Coordinator, Address] = {}
        self._asked: set[Coordinator] = set()
        self._trouble: dict[Coordinator, KafkaWireError] = {}

    def find(self, wanted: Coordinator, now_ms: int) -> Address | None:
        """Return the address of a coordinator; None while it is being looked up.

        The address comes from the lookup, because the metadata may not contain a broker that has just started. When a
        lookup fails, the router fails the calls that wait for it; a later call begins another lookup.
        """
        address = self._known.get(wanted)
        if address is None and wanted not in self._asked:
            self._look_up(wanted, now_ms)
        return address

    def knows(self, wanted: Coordinator) -> bool:
        """Return whether a coordinator is known, and nothing has shown since its lookup that it has moved."""
        return wanted in self._known

    def trouble(self, wanted: Coordinator) -> KafkaWireError | None:
        """Return why the lookup of a coordinator has not succeeded yet; None if nothing has gone wrong."""
        return self._trouble.get(wanted)

    def note(self, target: Coordinator, error: KafkaWireError) -> None:
        """Forget a coordinator if the error from a call to it shows that it may have moved."""
        if outdates_coordinator(error):
            self._known.pop(target, None)

    def forget_at(self, address: Address) -> None:
        """Forget the coordinators at an address after its connection has ended."""
        for wanted in [wanted for wanted, known in self._known.items() if known == address]:
            del self._known[wanted]

    def _look_up(self, wanted: Coordinator, now_ms: int) -> None:
        self._asked.add(wanted)

        def request(versions: Versions) -> tuple[Message, int]:
            version = versions.version_for(FindCoordinatorRequest)
            return find_coordinator(wanted.key, version, wanted.kind), version

        def check(response: FindCoordinatorResponse) -> KafkaWireError | None:
            try:
                coordinator(response, str(wanted))
            except KafkaWireError as error:
                self._trouble[wanted] = error
                return error
            return None

        def found(call: Call[FindCoordinatorResponse], now_ms: int) -> None:
            self._asked.discard(wanted)
            self._trouble.pop(wanted, None)
            if call.error is not None:
                self._not_found(wanted, call.error, now_ms)
                return
            _node_id, host, port = coordinator(call.answer, str(wanted))
            self._known[wanted] = Address(host, port)

        deadline_ms = now_ms + self._timeout_ms
        self._submit(Call(ANY_BROKER, request, FindCoordinatorResponse, deadline_ms, found, check=check), now_ms)
