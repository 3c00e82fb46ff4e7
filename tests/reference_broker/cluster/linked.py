"""Links over a router, to brokers that are functions, on a simulated clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkawire.reference_broker.cluster.links import Cancel, LinkOptions, RouterLinks
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.routing.given_metadata import GivenMetadata
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.wire import Address
from tests.sdk.simulation import Simulation, address, backoff

__all__ = ["Bench", "Outcomes"]


class Outcomes:
    """The outcomes of one request; at most one may arrive, and not before `ask` has returned."""

    def __init__(self) -> None:
        self.all: list[Message | Exception] = []

    def __call__(self, outcome: Message | Exception) -> None:
        self.all.append(outcome)

    @property
    def one(self) -> Any:
        """The only outcome."""
        (outcome,) = self.all
        return outcome


class Bench:
    """Links, and the simulated brokers that they reach."""

    def __init__(self) -> None:
        self.given = GivenMetadata()
        self.router = Router(LinkOptions(), backoff(), refresh=self.given)
        self.simulation = Simulation(self.router)
        self.wakes = 0
        self.links = RouterLinks(self.router, self.given, self._wake, lambda: self.simulation.now_ms, self.post)

    def _wake(self) -> None:
        self.wakes += 1

    def post(self, step: Callable[[], None]) -> None:
        self.simulation.at(0, step)

    def later(self, delay_ms: int, action: Callable[[], None]) -> Cancel:
        """Call an action after a delay, unless it is cancelled."""
        pending = [action]

        def fire() -> None:
            while pending:
                pending.pop()()

        self.simulation.at(delay_ms, fire)
        return pending.clear

    def know(self, *nodes: int, moved: dict[int, int] | None = None, controller_id: int | None = None) -> None:
        """Tell the links about these brokers; `moved` maps brokers to the node whose address they are to have."""
        self.links.know(self.addresses(*nodes, moved=moved), controller_id)

    @staticmethod
    def addresses(*nodes: int, moved: dict[int, int] | None = None) -> dict[int, Address]:
        return {node: address((moved or {}).get(node, node)) for node in nodes}

    def nodes(self) -> list[int]:
        """Return the brokers to which requests were sent."""
        return [node for _, node, _, _ in self.simulation.sent]
