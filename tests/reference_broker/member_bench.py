"""A broker without sockets, the only one in a cluster with an embedded registry; the test sets the time."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import Any

from kafkawire.reference_broker.apis import load
from kafkawire.reference_broker.cluster.controller.live_brokers import Endpoint
from kafkawire.reference_broker.cluster.embedded_registry import EmbeddedRegistry
from kafkawire.reference_broker.cluster.membership import ClusterLinks, Membership, MembershipServices
from kafkawire.reference_broker.cluster.startup import StartupSettings, prepare
from kafkawire.reference_broker.config.cluster_options import ClusterOptions
from kafkawire.reference_broker.config.listeners import ListenerRoles
from kafkawire.reference_broker.config.options import read_options
from kafkawire.reference_broker.control_plane.cluster_member import ClusterMember
from kafkawire.reference_broker.core import Core
from kafkawire.reference_broker.metadata.topic_files import LocalTopic
from kafkawire.reference_broker.requests.api_handlers import Scope
from kafkawire.reference_broker.storage.directory.identity import begin_in_cluster, read_identity
from kafkawire.reference_broker.storage.directory.log_directory import LogDirectory, LogPlace, lock_directory
from kafkawire.reference_broker.storage.directory.partition_folders import PartitionFolders
from kafkawire.reference_broker.storage.services import LogServices
from tests.reference_broker.broker_bench import LISTENER, BrokerBench
from tests.sdk.registry.owner import Owner

__all__ = ["MEMBER", "MemberBench"]

#: The environment variable that makes the broker of the fixture `bench` a member of a cluster.
MEMBER = "KAFKAWIRE_TEST_MEMBER"

_OPTIONS = {
    "zookeeper_connect": "embedded",
    "offsets_topic_replication_factor": 1,
    "transaction_state_log_replication_factor": 1,
    "transaction_state_log_min_isr": 1,
}

#: The number of turns after which scheduled calls are considered endless.
_TURNS_MAX = 1_000


class _NoLinks:
    """Links to no other broker."""

    def know(self, brokers: Any, controller_id: int | None) -> None:
        """Ignore the brokers."""

    def ask(self, *arguments: object, **named: object) -> Callable[[], None]:
        raise AssertionError("there is no other broker to ask")


class MemberBench(BrokerBench):
    """See `BrokerBench`; responses that wait for the registry arrive before `ask` returns."""

    def __init__(self, *arguments: Any, **options: object) -> None:
        self.owner = Owner()
        self.registry = EmbeddedRegistry(lambda: self.now_ms)
        super().__init__(*arguments, **options)

    def _open(self) -> Core:
        options = read_options(self.options)
        services = LogServices(self.disk, self.background, clock=lambda: self.now_ms)
        self._timers = services.timers
        session = self.registry.session(self.owner.post)
        session.start()
        self.owner.run_all()
        lock, known = lock_directory(self.disk), read_identity(self.disk)
        endpoint = Endpoint(LISTENER.name, *LISTENER.advertised, 0)
        settings = StartupSettings(options.node_id, (endpoint,))
        folders = PartitionFolders(self.disk).found()
        prepared = self.owner.run(session, prepare(known, settings, folders, lambda: next(self._uuids)))
        begin_in_cluster(self.disk, known, prepared.identity)
        directory = LogDirectory(services, lock, options.topic_defaults, is_replicated=True)
        directory.open(
            LogPlace(each.topic, each.number, each.topic_id, directory.config_of(each.configs))
            for each in prepared.expected
        )
        links: Any = _NoLinks()
        self.membership = Membership(
            session,
            prepared,
            options.node_id,
            options,
            ClusterOptions.read(_OPTIONS.items()),
            (endpoint,),
            ListenerRoles(LISTENER.name),
            ClusterLinks(links, (links,)),
            MembershipServices(
                services.timers, services.clock, self.owner.post, lambda: next(self._uuids), lambda: 0.0
            ),
        )
        member = ClusterMember(self.membership, directory, prepared.expected)
        numbers = count(1)
        served = load(scope=Scope.CLUSTER)
        core = Core(member, directory, options, lambda: f"id{next(numbers)}", self.now_ms, served)
        announced: list[bool] = []
        self.membership.follow_configs(lambda error: None)
        self.membership.follow_acls(lambda error: None)
        self.settle()
        self.membership.register(lambda epoch: None, _fail)
        self.settle()
        self.membership.stand(lambda: announced.append(True))
        self.settle()
        assert announced
        while core.groups.is_loading or core.transactions.is_loading:
            self.now_ms = max(self.now_ms, core.timers.next_deadline_ms or 0)
            self.settle()
        return core

    @property
    def store(self) -> Any:
        """Those parts of a standalone broker's store that the image also has."""
        image = self.core.metadata.image
        topics = {
            topic.name: LocalTopic(topic.name, topic.topic_id, len(topic.partitions), dict(topic.configs))
            for topic in image.topics.values()
        }
        return SimpleNamespace(topics=topics, cluster_id=image.cluster_id)

    def settle(self) -> None:
        """Run all scheduled calls and due timers until none are left."""
        for _ in range(_TURNS_MAX):
            self.owner.run_all()
            due_ms = self._timers.next_deadline_ms
            if due_ms is None or due_ms > self.now_ms:
                return
            self._timers.fire(self.now_ms)
        raise AssertionError(f"still not settled after {_TURNS_MAX} turns")

    def leave(self, *, is_crash: bool) -> None:
        """End the membership; the session of a crashed broker also ends, as if it had timed out."""
        if is_crash:
            self.membership.abandon()
            for session_id in self.registry.tree.sessions:
                self.registry.expire(session_id)
        else:
            self.membership.end_control()
            self.membership.leave(lambda: None)
        self.owner.run_all()


def _fail(error: Exception) -> None:
    raise error
