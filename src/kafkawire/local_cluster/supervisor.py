"""The supervisor of a cluster on this machine, which starts and stops the members and keeps `cluster.json` up to date.

One supervisor owns a folder at a time. It starts ZooKeeper together with the brokers and stops it last. A member that
ends on its own is shown as ended, and is not restarted. If the supervisor itself is killed, Linux kills the members
too; on other systems, the next command that uses the folder kills them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

from kafkawire.local_cluster.broker_config import broker_properties, checked_options
from kafkawire.local_cluster.cluster_folder import (
    ZOOKEEPER,
    ClusterError,
    ClusterFolder,
    ClusterRecord,
    MemberRecord,
    replace_file,
)
from kafkawire.local_cluster.control import ControlServer
from kafkawire.local_cluster.known_brokers import known_brokers
from kafkawire.local_cluster.member import Member, listens
from kafkawire.local_cluster.member_state import MemberState
from kafkawire.local_cluster.port_reservation import PortReservation, reserve_free_port, reserve_port
from kafkawire.local_cluster.process_identity import is_running, send_signal
from kafkawire.local_cluster.zookeeper_server import find_zookeeper, zookeeper_properties
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.near_names import did_you_mean
from kafkawire.sdk.registry.connect_string import parse_connect
from kafkawire.sdk.storage.properties import properties_content
from kafkawire.sdk.transport.wire import Address

__all__ = ["BROKERS_MAX", "BROKER_COMMAND", "ClusterSettings", "Supervisor", "end_left_members"]

_log = logging.getLogger("kafkawire.cluster")

#: The command that runs a broker, to which `--config FILE` is appended.
BROKER_COMMAND: Final = (sys.executable, "-m", "kafkawire", "broker")

#: Each broker is a process of about 60 MB; a machine can run dozens.
BROKERS_MAX: Final = 100

#: The number of brokers in a new cluster.
_BROKERS: Final = 3

#: How often the supervisor looks for members that other programs have paused with a signal.
_OBSERVE_SECONDS: Final = 0.5

#: How long an external ZooKeeper may take to accept a connection.
_ZOOKEEPER_SECONDS: Final = 5.0

#: How long the brokers of a cluster may take to learn of a newly announced broker, and how often they are asked.
_KNOWN_SECONDS: Final = 30.0
_KNOWN_PAUSE_SECONDS: Final = 0.02

#: How long processes may take to end after SIGKILL.
_KILL_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.01


class ClusterSettings(NamedTuple):
    """The settings with which a cluster is started.

    Attributes:
        brokers: the number of brokers; None for as many as the folder has, or three.
        zookeeper: the address of a ZooKeeper, as `host:port,host:port/chroot`; None to start one.
        options: options for all brokers, keyed by Kafka's names.
        broker_command: the command that runs a broker, to which `--config FILE` is appended; None for `BROKER_COMMAND`.
    """

    brokers: int | None = None
    zookeeper: str | None = None
    options: Mapping[str, str] = {}
    broker_command: tuple[str, ...] | None = None


class Supervisor:
    """The supervisor of a cluster. Its calls come from one event loop, whose thread outlives the members.

    Args:
        folder: the folder of the cluster.
        settings: the settings with which it is started.
        on_change: called with a member after each change of its record.

    Attributes:
        folder: the folder of the cluster.
        stopped: set once all members have stopped.

    Raises:
        ConfigurationError: a setting is invalid.
    """

    def __init__(
        self,
        folder: ClusterFolder,
        settings: ClusterSettings,
        on_change: Callable[[MemberRecord], None] = lambda member: None,
    ) -> None:
        if settings.brokers is not None and not 1 <= settings.brokers <= BROKERS_MAX:
            raise ConfigurationError("brokers", settings.brokers, f"expected 1 to {BROKERS_MAX}")
        if settings.zookeeper is not None:
            parse_connect("zookeeper", settings.zookeeper)
        checked_options(settings.options, is_for_us=settings.broker_command is None)
        self.folder: Final = folder
        self._settings = settings
        self._on_change = on_change
        self._lock: int | None = None
        self._ports: list[PortReservation] = []
        self._connect = settings.zookeeper or ""
        self._members: dict[str, Member] = {}
        self._busy: dict[str, asyncio.Lock] = {}
        self._control = ControlServer(folder, self.act)
        self._observer: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self.stopped: Final = asyncio.Event()

    @property
    def record(self) -> ClusterRecord:
        """The current content of `cluster.json`."""
        records = {name: member.record for name, member in self._members.items()}
        zookeeper = records.pop(ZOOKEEPER, None)
        return ClusterRecord(tuple(records.values()), zookeeper, self._connect)

    async def start(self) -> None:
        """Start all members, and wait until each broker knows all others; if a member fails, stop them all.

        If the cluster is stopped in the meantime, the wait ends without an error.

        Raises:
            ClusterError: another process runs the cluster, a port is in use, this machine has no ZooKeeper program, or
                a member failed.
            ConfigurationError: the folder has more brokers, or nothing listens at ZooKeeper's address.
            OSError: the folder cannot be written.
        """
        self.folder.create()
        self._lock = self.folder.lock()
        if self._lock is None:
            raise ClusterError(f"another process is running the cluster in {self.folder.path}; stop it first")
        try:
            self._prepare()
            await self._control.start()
            self._observer = asyncio.create_task(self._observe())
            await self._start_members()
        except BaseException:
            await self.stop()
            raise

    async def _start_members(self) -> None:
        """Start all members together; brokers load their code while ZooKeeper starts, and then wait for it."""
        try:
            await asyncio.gather(*(member.start() for member in self._members.values()))
            await self._make_known(name for name in self._members if name != ZOOKEEPER)
        except ClusterError:
            if self._stopping is None:  # stopping makes every start fail
                raise

    async def _make_known(self, names: Iterable[str]) -> None:
        """Wait until all running brokers know the named ones, on which replicas can then be placed."""
        wanted = {int(name) for name in names}
        deadline = time.monotonic() + _KNOWN_SECONDS
        while self._stopping is None:
            brokers = [member for name, member in self._members.items() if name != ZOOKEEPER]
            running = [member for member in brokers if member.state is MemberState.RUNNING]
            known = await asyncio.gather(
                *(known_brokers(Address.parse("address", member.record.address)) for member in running)
            )
            wanted &= {int(member.record.name) for member in running}
            missing = {
                member.record.full_name: wanted - found
                for member, found in zip(running, known, strict=True)
                if member.state is MemberState.RUNNING and not wanted <= found
            }
            if not missing:
                return
            if time.monotonic() > deadline:
                name, unknown = next(iter(missing.items()))
                ids = ", ".join(map(str, sorted(unknown)))
                raise ClusterError(f"{name} did not list brokers {ids} within {_KNOWN_SECONDS:.0f} s")
            await asyncio.sleep(_KNOWN_PAUSE_SECONDS)

    async def stop(self) -> None:
        """Stop all brokers, then ZooKeeper, and release the folder; may be called more than once."""
        await asyncio.shield(self._begin_stop())

    def _begin_stop(self) -> asyncio.Task[None]:
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop())
        return self._stopping

    async def kill(self) -> None:
        """Kill all members; `stop` then has nothing to wait for."""
        await asyncio.gather(*(member.kill() for member in self._members.values()))

    async def act(self, action: str, name: str | None) -> None:
        """Perform a command's action, and wait until it is complete.

        Args:
            action: kill, stop, pause, resume or restart.
            name: a broker's id as text, or `ZOOKEEPER`; None to stop the whole cluster.

        Raises:
            ClusterError: there is no such action or member, the member is in the wrong state, or the action failed.
            OSError: the process cannot be started.
        """
        if name is None:
            if action != "stop":
                raise ClusterError(f"{action} requires the id of a member")
            self._begin_stop()
            await self.stopped.wait()
            return
        member = self._members.get(name)
        if member is None:
            hint = did_you_mean(name, self._members) or f"; its members are {', '.join(self._members)}"
            raise ClusterError(f"the cluster has no member {name}{hint}")
        actions: dict[str, Callable[[], Awaitable[None]]] = {
            "kill": member.kill,
            "stop": member.stop,
            "pause": member.pause,
            "resume": member.resume,
            "restart": member.restart,
        }
        if action not in actions:
            raise ClusterError(f"unknown action {action}")
        if self._stopping is not None:
            raise ClusterError("the cluster is stopping")
        if action in ("kill", "stop") and not member.state.has_process:
            raise ClusterError(f"{member.record.full_name} is {member.state.value}")
        if action == "kill":  # even while it hangs in startup or shutdown
            await member.kill()
            return
        async with self._busy[name]:
            await actions[action]()
            if action == "restart" and name != ZOOKEEPER:
                await self._make_known([name])

    def _prepare(self) -> None:
        """Choose the members and their ports, and write their configurations."""
        before = end_left_members(self.folder)
        count = self._settings.brokers or (_BROKERS if before is None else len(before.brokers))
        if before is not None and count < len(before.brokers):
            reason = (
                f"the cluster in {self.folder.path} has {len(before.brokers)} brokers and cannot be started with fewer"
            )
            raise ConfigurationError("brokers", count, reason)
        known = {} if before is None else {member.name: member for member in before.members}
        if self._settings.zookeeper is None:
            program = find_zookeeper()
            own = self._placed(ZOOKEEPER, known)
            self._connect = own.address
            port = Address.parse("zookeeper", own.address).port
            config = self._configure(ZOOKEEPER, zookeeper_properties(self.folder.zookeeper_data, port))
            self._add(own, program.command(config))
        else:
            _check_reachable(self._settings.zookeeper)
        for broker_id in range(1, count + 1):
            broker = self._placed(str(broker_id), known)
            data = self.folder.broker_data(broker_id)
            properties = broker_properties(
                broker_id, broker.address, self._connect, data, count, self._settings.options
            )
            command = self._settings.broker_command or BROKER_COMMAND
            self._add(broker, [*command, "--config", self._configure(broker.name, properties)])
        self.folder.write(self.record)

    def _placed(self, name: str, known: Mapping[str, MemberRecord]) -> MemberRecord:
        """Return the record of a member that has no process yet, with its previous port."""
        if name in known:
            member = known[name]
            self._ports.append(reserve_port(Address.parse("address", member.address).port))
            return MemberRecord(name, member.address)
        self._ports.append(reserve_free_port())
        return MemberRecord(name, f"127.0.0.1:{self._ports[-1].port}")

    def _configure(self, name: str, properties: Mapping[str, str]) -> str:
        path = self.folder.config_path(name)
        replace_file(path, properties_content(properties).decode())
        return str(path)

    def _add(self, record: MemberRecord, command: list[str]) -> None:
        def changed() -> None:
            try:
                self.folder.write(self.record)
            except OSError as error:  # the members keep running, and the next change writes the whole file
                _log.warning("%s cannot be written: %s", self.folder.record_path, error)
            self._on_change(member.record)

        can_be_used = listens if record.name == ZOOKEEPER else partial(_is_announced, int(record.name))
        member = Member(record, command, self.folder.log_path(record.name), changed, can_be_used)
        self._members[record.name] = member
        self._busy[record.name] = asyncio.Lock()

    async def _observe(self) -> None:
        while True:
            await asyncio.sleep(_OBSERVE_SECONDS)
            for member in self._members.values():
                member.observe()

    async def _stop(self) -> None:
        for member in self._members.values():
            member.may_start = False
        try:
            brokers = [member for name, member in self._members.items() if name != ZOOKEEPER]
            await asyncio.gather(*(broker.stop() for broker in brokers))
            if ZOOKEEPER in self._members:
                await self._members[ZOOKEEPER].stop()
        finally:
            self.stopped.set()
            if self._observer is not None:
                self._observer.cancel()
            for port in self._ports:
                port.close()
            await self._control.close()
            if self._lock is not None:
                os.close(self._lock)


def end_left_members(folder: ClusterFolder) -> ClusterRecord | None:
    """Kill the members left behind by a killed supervisor, and correct `cluster.json`. The caller holds the lock.

    Returns:
        The new content of the file; None if there is no file.

    Raises:
        ClusterError: a member does not end, or the file is damaged.
        OSError: the file cannot be written.
    """
    record = folder.read()
    if record is None or not any(member.state.has_process for member in record.members):
        return record
    deadline = time.monotonic() + _KILL_SECONDS
    corrected = {}
    for member in record.members:
        if member.process is not None:
            send_signal(member.process, signal.SIGKILL)
    for member in record.members:
        while member.process is not None and is_running(member.process):
            if time.monotonic() > deadline:
                raise ClusterError(f"{member.full_name}, process {member.process.pid}, has not ended after SIGKILL")
            time.sleep(_PAUSE_SECONDS)
        corrected[member.name] = member.without_process(MemberState.ENDED) if member.state.has_process else member
    brokers = tuple(corrected[broker.name] for broker in record.brokers)
    now = record._replace(brokers=brokers, zookeeper=corrected.get(ZOOKEEPER))
    folder.write(now)
    return now


async def _is_announced(broker_id: int, address: Address) -> bool:
    """Return whether the controller has announced a broker, as seen by that broker."""
    return broker_id in await known_brokers(address)


def _check_reachable(connect: str) -> None:
    """Raise an error unless at least one server of a ZooKeeper ensemble accepts connections."""
    servers, _ = parse_connect("zookeeper", connect)
    for server in servers.split(","):
        address = Address.parse("zookeeper", server)
        with contextlib.suppress(OSError), socket.create_connection(address, _ZOOKEEPER_SECONDS):
            return
    raise ConfigurationError("zookeeper", connect, "no server is listening at this address")
