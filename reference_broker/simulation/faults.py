"""The faults in a plan: `Step.name` names the method that causes a fault and later repairs it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final, NamedTuple

from kafkawire.reference_broker.cluster.embedded_registry import Fault, RegistryCall
from kafkawire.reference_broker.simulation.checkers import concerns_states
from kafkawire.reference_broker.simulation.client import Client
from kafkawire.reference_broker.simulation.cluster import SimulatedCluster
from kafkawire.reference_broker.simulation.scheduler import Host
from kafkawire.reference_broker.storage.disk.memory import DiskCall, MemoryDisk, PowerCut
from kafkawire.sdk.protocol.frames import LENGTH_BYTES
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.znodes import CONTROLLER
from kafkawire.sdk.registry.registry import Delete, RegistryCode

__all__ = ["Faults"]


#: Disk calls that do not change anything.
_READS: Final = frozenset({"lock", "names", "open", "read", "size_of", "volume"})

_API_KEY: Final = Struct(">h")


class _AtRequest(NamedTuple):
    """See `Faults.at_request`."""

    api: int
    left: int
    victim: str
    action: str
    down_ms: int


class Faults:
    """The faults in one run.

    Args:
        cluster: the cluster subjected to the faults.
        clients: the clients subjected to faults.
        watch: called before each operation on the registry.
        replace: starts another transformer; the argument is how many milliseconds to pause the old one, or 0 to kill
            it.
        replace_member: kills a member of the group, and starts another.
    """

    def __init__(
        self,
        cluster: SimulatedCluster,
        clients: Sequence[Client],
        watch: Callable[[RegistryCall], None],
        replace: Callable[[int], None],
        replace_member: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._clients = clients
        self._watch = watch
        self._replace = replace
        self._replace_member = replace_member
        #: The fault to inject into an upcoming registry operation, and the number of operations before that one.
        self._registry_fault: tuple[int, Fault] | None = None
        #: The number of operations on the states of partitions until the controller is replaced, and the length of its
        #: pause.
        self._replacement: tuple[int, int] | None = None
        #: What to do when upcoming requests arrive.
        self._at_requests: list[_AtRequest] = []
        cluster.registry.plan = self._plan_registry
        cluster.network.on_request = self._arriving
        self.is_over = False
        self._administrator = cluster.registry.session(cluster.outside.post, name="administrator")
        self._administrator.start()

    def _later(self, delay_ms: int, repair: Callable[[], None]) -> None:
        self._cluster.outside.later_us(delay_ms * 1_000, repair)

    def end(self) -> None:
        """Repair everything."""
        self.is_over = True
        self._registry_fault = self._replacement = None
        self._at_requests.clear()
        cluster = self._cluster
        cluster.network.heal()
        for broker_id in cluster.disks:
            self._disk(broker_id).capacity_bytes = None
            broker = cluster.brokers.get(broker_id)
            if broker is None:
                cluster.start(broker_id)
                continue
            broker.disk.plan = None
            broker.session.reconnect()
            if broker.has_failed_logs:  # a restart reopens the failed logs
                self.kill(broker_id, 0)

    # Brokers.

    def kill(self, broker_id: int, down_ms: int) -> None:
        """Kill a process."""
        self._cluster.kill(broker_id)
        self._later(down_ms, lambda: self._cluster.start(broker_id))

    def cut_power(self, broker_id: int, down_ms: int) -> None:
        """Cut the power to a broker."""
        self._cluster.cut_power(broker_id)
        self._later(down_ms, lambda: self._cluster.start(broker_id))

    def cut_power_in_work(self, broker_id: int, calls: int, down_ms: int) -> None:
        """Cut the power to a broker during a later disk call."""
        broker = self._cluster.brokers.get(broker_id)
        if broker is None:
            return
        disk, left = broker.disk, [calls]

        def plan(call: DiskCall) -> None:
            left[0] -= call.name not in _READS
            if left[0] <= 0:
                raise PowerCut(call)

        disk.plan = plan
        self._cluster.when_cut = lambda dead: self._later(down_ms, lambda: self._cluster.start(dead))

    def fail_disk(self, broker_id: int, calls: int) -> None:
        """Make one later disk call fail; the affected log goes offline."""
        broker = self._cluster.brokers.get(broker_id)
        if broker is None:
            return
        left = [calls]

        def plan(call: DiskCall) -> None:
            left[0] -= call.name not in _READS
            if left[0] == 0 and call.name not in _READS:
                self._cluster.scheduler.note(f"the disk of broker {broker_id} fails: {call.name} {call.path}")
                raise OSError(errno.EIO, os.strerror(errno.EIO), call.path)

        broker.disk.plan = plan

    def fill_disk(self, broker_id: int, room_bytes: int, down_ms: int) -> None:
        """Leave only a little room on the disk of a broker for a while; logs go offline once it is used up."""
        self._cluster.scheduler.note(f"the disk of broker {broker_id} has room for {room_bytes} bytes")
        disk = self._disk(broker_id)
        disk.capacity_bytes = disk.used_bytes + room_bytes

        def make_room() -> None:
            self._disk(broker_id).capacity_bytes = None

        self._later(down_ms, make_room)

    def _disk(self, broker_id: int) -> MemoryDisk:
        broker = self._cluster.brokers.get(broker_id)
        return self._cluster.disks[broker_id] if broker is None else broker.disk

    def jump_clock(self, broker_id: int, jump_ms: int) -> None:
        """Set the clock of a broker forward or back."""
        self._cluster.scheduler.note(f"the clock of broker {broker_id} jumps by {jump_ms} ms")
        self._cluster.wall_clocks[broker_id].ahead_ms += jump_ms

    def stop(self, broker_id: int, down_ms: int) -> None:
        """Stop a broker cleanly."""
        self._cluster.stop(broker_id)
        self._later(down_ms + 500, lambda: self._restart(broker_id))

    def _restart(self, broker_id: int) -> None:
        broker = self._cluster.brokers.get(broker_id)
        if broker is not None and broker.is_stopping:
            self._cluster.kill(broker_id)
        self._cluster.start(broker_id)

    def pause(self, broker_id: int, down_ms: int) -> None:
        """Suspend a process for a while, as SIGSTOP does; its session may expire in the meantime."""
        broker = self._cluster.brokers.get(broker_id)
        if broker is not None:
            self._cluster.scheduler.note(f"broker {broker_id} is paused for {down_ms} ms")
            broker.session.disconnect()
            broker.host.pause(down_ms * 1_000)
            self._later(down_ms, broker.session.reconnect)

    def at_request(self, api: str, count: int, victim: str, action: str, down_ms: int) -> None:
        """Do something to a broker when a certain kind of request is about to arrive.

        Args:
            api: the name of the API.
            count: which request of this kind, counting from now.
            victim: `sender` or `receiver`; requests for which that is a client are not counted.
            action: `kill`, `cut_power`, `pause`, `expire`, which ends the broker's session, `cut`, which cuts the
                network between the two, `replace`, which pauses the broker and deposes the controller, or
                `delay`, which delays only this request and those after it on its connection.
            down_ms: how long the effect lasts; not used by `expire`.
        """
        self._at_requests.append(_AtRequest(ApiKey[api], count, victim, action, down_ms))

    def _arriving(self, sender: Host, receiver: Host, data: bytes) -> int:
        """Do what is planned for a request; return how many microseconds the request is delayed."""
        if not self._at_requests or len(data) < LENGTH_BYTES + _API_KEY.size:  # a broken connection delivers a part
            return 0
        api = _API_KEY.unpack_from(data, LENGTH_BYTES)[0]
        names = {f"b{each}": each for each in self._cluster.disks}
        for index, wanted in enumerate(self._at_requests):
            broker_id = names.get((sender if wanted.victim == "sender" else receiver).name)
            if wanted.api != api or broker_id is None:
                continue
            if wanted.left <= 1:
                del self._at_requests[index]
                return self._carry_out(wanted, sender, receiver, broker_id)
            self._at_requests[index] = wanted._replace(left=wanted.left - 1)
        return 0

    def _carry_out(self, wanted: _AtRequest, sender: Host, receiver: Host, broker_id: int) -> int:
        if wanted.action == "delay":
            self._cluster.scheduler.note(f"a request from {sender.name} to {receiver.name} is delayed")
            return wanted.down_ms * 1_000
        if wanted.action == "cut":
            self.cut(sender.name, receiver.name, wanted.down_ms)
        elif wanted.action == "expire":
            self.expire(broker_id)
        elif wanted.action == "replace":
            self.pause(broker_id, wanted.down_ms)
            self.depose()
        else:
            getattr(self, wanted.action)(broker_id, wanted.down_ms)
        return 0

    # The network.

    def cut(self, one: str, other: str, down_ms: int) -> None:
        """Cut the network between two computers, or between one computer and all others."""
        others = self._names(other, one)
        self._cluster.scheduler.note(f"the network is cut between {one} and {', '.join(others)}")
        self._cluster.network.cut([(one, each) for each in others] + [(each, one) for each in others])
        self._later(down_ms, self._cluster.network.heal)

    def cut_one_way(self, one: str, other: str, down_ms: int) -> None:
        """Cut the network in only one direction."""
        self._cluster.scheduler.note(f"the network is cut from {one} to {other}")
        self._cluster.network.cut([(one, other)])
        self._later(down_ms, self._cluster.network.heal)

    def _names(self, other: str, one: str) -> list[str]:
        if other == "clients":
            return [client.name for client in self._clients]
        brokers = [f"b{broker_id}" for broker_id in self._cluster.disks]
        return [each for each in brokers if each != one] if other == one else [other]

    def break_connections(self, broker_id: int) -> None:
        """Break half of a broker's connections."""
        broker = self._cluster.brokers.get(broker_id)
        if broker is not None:
            self._cluster.scheduler.note(f"connections of broker {broker_id} break")
            self._cluster.network.break_some(broker.host, 0.5)

    # The registry.

    def disconnect(self, broker_id: int, down_ms: int) -> None:
        """Disconnect a broker from the registry."""
        broker = self._cluster.brokers.get(broker_id)
        if broker is not None:
            self._cluster.scheduler.note(f"broker {broker_id} loses the registry")
            broker.session.disconnect()
            self._later(down_ms, broker.session.reconnect)

    def registry_outage(self, down_ms: int) -> None:
        """Take the registry down for a while, after which every session has its full timeout again."""
        self._cluster.scheduler.note("the registry is down")
        for broker in self._cluster.brokers.values():
            broker.session.disconnect()
            self._later(down_ms, broker.session.reconnect)

    def expire(self, broker_id: int) -> None:
        """Expire the session of a broker that keeps running."""
        broker = self._cluster.brokers.get(broker_id)
        if broker is not None and broker.session.session_id:
            self._cluster.scheduler.note(f"the session of broker {broker_id} expires")
            self._cluster.registry.expire(broker.session.session_id)

    def depose(self) -> None:
        """Delete the controller's node, as administrators do: another broker may be elected while this one works."""
        self._cluster.scheduler.note("the controller is deposed")
        self._administrator.submit([Delete(CONTROLLER.path())], lambda outcomes: None)

    def replace_controller(self, operations: int, down_ms: int) -> None:
        """Depose the controller in the middle of its work; it learns too late that another one has been elected.

        Args:
            operations: which of the controller's operations on partitions' states, counting from now, is its last one
                before it is paused.
            down_ms: how long it is paused; its session does not expire in that time.
        """
        self._replacement = operations, down_ms

    def _replace_controller(self, session_id: int, down_ms: int) -> None:
        for broker in self._cluster.brokers.values():
            if broker.session.session_id == session_id:
                self._cluster.scheduler.note(f"broker {broker.broker_id} is paused in its work for {down_ms} ms")
                broker.host.pause(down_ms * 1_000)
                self.depose()

    def registry_fault(self, calls: int, fault: str) -> None:
        """Make an upcoming registry operation go wrong."""
        self._registry_fault = calls, Fault[fault]

    def _plan_registry(self, call: RegistryCall) -> Fault | RegistryCode | None:
        self._watch(call)
        if self._replacement is not None and concerns_states(call.operation):
            operations, down_ms = self._replacement
            self._replacement = (operations - 1, down_ms) if operations > 1 else None
            if self._replacement is None:
                self._replace_controller(call.session_id, down_ms)
        if self._registry_fault is None:
            return None
        calls, fault = self._registry_fault
        if calls > 1:
            self._registry_fault = calls - 1, fault
            return None
        self._registry_fault = None
        self._cluster.scheduler.note(f"{fault.name} of {type(call.operation).__name__}")
        return fault

    # Clients.

    def pause_client(self, number: int, down_ms: int) -> None:
        """Pause a client for a while."""
        client = self._clients[number % len(self._clients)]
        self._cluster.scheduler.note(f"client {client.name} is paused for {down_ms} ms")
        client.host.pause(down_ms * 1_000)

    def kill_transformer(self, pause_ms: int) -> None:
        """Start another transformer, and kill the old one or only pause it."""
        self._replace(pause_ms)

    def kill_member(self) -> None:
        """Kill a member of the group, without a word to the coordinator, and start another."""
        self._cluster.scheduler.note("a member is killed")
        self._replace_member()
