"""A registry with a cluster's nodes, for testing what brokers read and write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkawire.reference_broker.cluster.embedded_registry import Fault, RegistryCall
from kafkawire.sdk.protocol.tables import znodes
from kafkawire.sdk.protocol.tables.znodes import CONTROLLER, TOPIC, ControllerRegistration, TopicAssignment, Znode
from kafkawire.sdk.registry.registry import Create, GetData, Operation, Outcome, RegistryCode, SetData
from tests.reference_broker.cluster.embedded_bench import EmbeddedBench

__all__ = ["ClusterBench", "fault_at"]

TOPIC_ID = bytes(range(16))


class ClusterBench(EmbeddedBench):
    """A registry in which a controller and brokers have started.

    Attributes:
        one: the session of the broker under test.
        other: the session of another program.
    """

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = self.registry(), self.registry()
        nodes = [each for each in vars(znodes).values() if isinstance(each, Znode) and each.is_made_at_startup]
        self.write(*(Create(node.path()) for node in sorted(nodes, key=lambda node: node.template)))
        self.write(Create(CONTROLLER.path(), CONTROLLER.encode(ControllerRegistration(0, 1))))
        self.embedded.calls = 0

    def write(self, *operations: Operation) -> tuple[Outcome, ...]:
        """Have the other program perform operations; return the outcomes."""
        return self.owner.ask_all(self.other, *operations)

    def topic(self, name: str, replicas: Mapping[int, Sequence[int]], config: bytes | None = None) -> None:
        """Have the other program create a topic."""
        partitions = {number: tuple(each) for number, each in replicas.items()}
        if config is not None:
            self.write(Create(f"/config/topics/{name}", config))
        self.write(Create(TOPIC.path(name), TOPIC.encode(TopicAssignment(partitions, TOPIC_ID))))

    def put(self, path: str, data: bytes) -> None:
        """Have the other program write a node that may exist."""
        (outcome,) = self.write(Create(path, data))
        if getattr(outcome, "code", None) is RegistryCode.NODE_EXISTS:
            self.write(SetData(path, data))

    def data(self, path: str) -> str | None:
        """Return the content of a node, or None if it does not exist."""
        (outcome,) = self.write(GetData(path))
        data = getattr(outcome, "data", None)
        return None if data is None else data.decode()

    def writes(self) -> list[Operation]:
        """Return a list that collects the changes that the broker under test makes from now on."""
        changes: list[Operation] = []

        def note(call: RegistryCall) -> None:
            reads = ("GetData", "GetChildren", "Exists")
            if call.session_id == self.one.session_id and type(call.operation).__name__ not in reads:
                changes.append(call.operation)

        self.embedded.plan = note
        return changes


def fault_at(bench: ClusterBench, number: int, fault: Fault | RegistryCode) -> list[RegistryCall]:
    """Make an operation of the broker under test fail; return a list to which that operation will be added."""
    met: list[RegistryCall] = []
    own = 0

    def plan(call: RegistryCall) -> Fault | RegistryCode | None:
        nonlocal own
        if call.session_id == bench.one.session_id:
            own += 1
            if own == number:
                met.append(call)
                return fault
        return None

    bench.embedded.plan = plan
    return met
