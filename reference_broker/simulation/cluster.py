"""The brokers of a simulated cluster, their disks and clocks, and their registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kafkawire.reference_broker.cluster.embedded_registry import EmbeddedRegistry
from kafkawire.reference_broker.simulation.broker import SimulatedBroker
from kafkawire.reference_broker.simulation.network import Network
from kafkawire.reference_broker.simulation.scheduler import Clock, Host, Scheduler, WallClock
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk

__all__ = ["BROKERS", "SimulatedCluster"]

#: The ids of the brokers.
BROKERS: Final[tuple[int, ...]] = (1, 2, 3)

#: The maximum offset and the maximum drift of a broker's clock, in either direction.
_OFFSET_MS_MAX: Final = 400
_DRIFT_PPM_MAX: Final = 500

#: How often the registry looks for expired sessions.
_EXPIRY_INTERVAL_US: Final = 200_000

#: The pause before restarting a broker whose startup has failed.
_RESTART_US: Final = 300_000


class SimulatedCluster:
    """Three brokers and a registry.

    Args:
        scheduler: see `Scheduler`.
        options: the options of all brokers.

    Attributes:
        scheduler, options: see above.
        network: see `Network`.
        registry: see `EmbeddedRegistry`.
        brokers: the live brokers, keyed by id.
        disks: the disks, keyed by broker id; a live broker has its own.
        wall_clocks: the clocks that can be set, keyed by broker id.
        when_cut: called with the id of a broker that has lost power in the middle of its work.
    """

    def __init__(self, scheduler: Scheduler, options: Mapping[str, object]) -> None:
        self.scheduler = scheduler
        self.options = options
        self.chance = scheduler.chance("cluster")
        self.network = Network(scheduler.chance("network"))
        clock = Clock(scheduler)
        self.registry = EmbeddedRegistry(clock)
        self.disks = {broker_id: MemoryDisk() for broker_id in BROKERS}
        self.clocks = {
            broker_id: Clock(
                scheduler,
                self.chance.randint(-_OFFSET_MS_MAX, _OFFSET_MS_MAX),
                self.chance.randint(-_DRIFT_PPM_MAX, _DRIFT_PPM_MAX),
            )
            for broker_id in BROKERS
        }
        self.wall_clocks = {broker_id: WallClock(clock) for broker_id, clock in self.clocks.items()}
        self.brokers: dict[int, SimulatedBroker] = {}
        self.lives: dict[int, int] = dict.fromkeys(BROKERS, 0)
        self.when_cut: Callable[[int], None] = lambda broker_id: None
        #: The host for the registry, and for events that do not happen on any computer in the cluster.
        self.outside = Host(scheduler, "outside", clock, scheduler.chance("outside"))
        self.outside.later_us(_EXPIRY_INTERVAL_US, self._expire)

    def _expire(self) -> None:
        self.registry.expire_silent()
        self.outside.later_us(_EXPIRY_INTERVAL_US, self._expire)

    def start(self, broker_id: int) -> None:
        """Start a broker that is not alive."""
        if broker_id in self.brokers:
            return
        self.lives[broker_id] += 1
        self.scheduler.note(f"broker {broker_id} starts")
        clocks = self.clocks[broker_id], self.wall_clocks[broker_id]
        broker = SimulatedBroker(self, broker_id, self.disks[broker_id], clocks, self.options, self.lives[broker_id])
        self.brokers[broker_id] = broker
        broker.start()

    def kill(self, broker_id: int) -> None:
        """Kill a broker's process; the operating system keeps what the process has written."""
        broker = self.brokers.pop(broker_id, None)
        if broker is not None:
            self.scheduler.note(f"broker {broker_id} is killed")
            broker.kill()
            self.disks[broker_id] = broker.disk.crash()

    def cut_power(self, broker_id: int) -> None:
        """Cut the power to a broker: data that was not synced may be lost."""
        broker = self.brokers.pop(broker_id, None)
        if broker is not None:
            self.scheduler.note(f"broker {broker_id} loses power")
            broker.kill(is_silent=True)
            self.disks[broker_id] = broker.disk.crash(self.chance.randrange(2**32))

    def stop(self, broker_id: int) -> None:
        """Stop a broker, which first hands over leadership of its partitions."""
        broker = self.brokers.get(broker_id)
        if broker is not None:
            self.scheduler.note(f"broker {broker_id} is stopped")

            def stopped() -> None:
                if self.brokers.get(broker_id) is broker:
                    self.scheduler.note(f"broker {broker_id} has stopped")
                    del self.brokers[broker_id]
                    self.disks[broker_id] = broker.disk.crash()

            broker.host.post(lambda: broker.stop(stopped))

    def failed(self, broker: SimulatedBroker, error: BaseException) -> None:
        """See `Surroundings.failed`."""
        broker_id = broker.broker_id
        if self.brokers.get(broker_id) is not broker:
            return
        self.scheduler.note(f"broker {broker_id} fails: {type(error).__name__}: {error}")
        self.kill(broker_id)
        self.outside.later_us(_RESTART_US, lambda: self.start(broker_id))

    def lose_power(self) -> None:
        """End the broker whose disk lost power in the middle of the interrupted step."""
        host = self.scheduler.current
        for broker_id, broker in list(self.brokers.items()):
            if broker.host is host:
                self.cut_power(broker_id)
                self.when_cut(broker_id)
