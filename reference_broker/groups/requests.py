"""The coordinator's requests and limits.

The handlers in `apis/` build these from messages of any version, so the coordinator does not depend on versions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.reference_broker.groups.classic.group import Protocols
from kafkawire.reference_broker.groups.records import Committed
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.storage.partitions import Partition

__all__ = [
    "PROTOCOLS_BYTES_MAX",
    "PROTOCOLS_MAX",
    "SUBSCRIBED_TOPICS_MAX",
    "Commit",
    "ConsumerHeartbeat",
    "Fetched",
    "GroupLimits",
    "Join",
    "Sync",
    "TransactionalCommit",
]

#: Maximum size of a member's subscriptions in bytes. With larger ones, the group's record does not fit in the offsets
#: topic.
PROTOCOLS_BYTES_MAX = 1024 * 1024

#: Maximum number of protocols of a member, and of subscribed names in one protocol. Consumers have two or three
#: protocols, and few clusters have that many topics; each name is checked several times without interruption.
PROTOCOLS_MAX = 1_000
SUBSCRIBED_TOPICS_MAX = 50_000


_NO_GROUPS: Mapping[str, Mapping[str, str]] = {}


@dataclass(slots=True)
class GroupLimits:
    """Limits of groups, named after the broker's options.

    Attributes:
        group_min_session_timeout_ms: minimum session timeout; with shorter timeouts, heartbeats would burden the
            broker.
        group_max_session_timeout_ms: maximum session timeout; with longer timeouts, dead members' partitions stay
            unread.
        group_initial_rebalance_delay_ms: how long an empty group waits for more members after the first one.
        group_max_size: maximum number of members of a group; in each rebalance, the leader needs memory for all of
            them.
        group_consumer_session_timeout_ms: how long a member of a KIP-848 group may go without sending a heartbeat.
        group_consumer_heartbeat_interval_ms: the heartbeat interval of such a member.
        group_consumer_max_size: maximum number of members of a KIP-848 group.
        group_consumer_migration_policy: whether groups with members can change their protocol (see `Migration`).
        group_consumer_assignment_interval_ms: how long changes to a KIP-848 group are collected after an assignment.
        group_consumer_regex_refresh_interval_ms: how long the resolved topics of regular expressions stay valid.
        offsets_retention_ms: how long the offsets of an empty group are kept.
        offsets_retention_check_interval_ms: how often to check for expired offsets and groups.
        of_groups: validated configurations of individual groups, keyed by Kafka's names.
    """

    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_size: int
    group_consumer_session_timeout_ms: int
    group_consumer_heartbeat_interval_ms: int
    group_consumer_max_size: int
    group_consumer_migration_policy: str
    group_consumer_assignment_interval_ms: int
    group_consumer_regex_refresh_interval_ms: int
    offsets_retention_ms: int
    offsets_retention_check_interval_ms: int
    of_groups: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: _NO_GROUPS, compare=False)

    def consumer_session_timeout_ms(self, group_id: str) -> int:
        """Return how long a member of a KIP-848 group may go without sending a heartbeat."""
        return self._of_group(group_id, "consumer.session.timeout.ms", self.group_consumer_session_timeout_ms)

    def consumer_heartbeat_interval_ms(self, group_id: str) -> int:
        """Return the heartbeat interval of the members of a KIP-848 group."""
        return self._of_group(group_id, "consumer.heartbeat.interval.ms", self.group_consumer_heartbeat_interval_ms)

    def consumer_assignment_interval_ms(self, group_id: str) -> int:
        """Return how long changes to a KIP-848 group are collected after an assignment."""
        return self._of_group(group_id, "consumer.assignment.interval.ms", self.group_consumer_assignment_interval_ms)

    def _of_group(self, group_id: str, name: str, default: int) -> int:
        own = self.of_groups.get(group_id)
        return default if own is None or name not in own else int(own[name])

    @classmethod
    def of(cls, options: BrokerOptions, of_groups: Mapping[str, Mapping[str, str]] = _NO_GROUPS) -> Self:
        """Return the limits in the broker's options, and the configurations of individual groups."""
        return cls(
            group_min_session_timeout_ms=options.group_min_session_timeout_ms,
            group_max_session_timeout_ms=options.group_max_session_timeout_ms,
            group_initial_rebalance_delay_ms=options.group_initial_rebalance_delay_ms,
            group_max_size=options.group_max_size,
            group_consumer_session_timeout_ms=options.group_consumer_session_timeout_ms,
            group_consumer_heartbeat_interval_ms=options.group_consumer_heartbeat_interval_ms,
            group_consumer_max_size=options.group_consumer_max_size,
            group_consumer_migration_policy=options.group_consumer_migration_policy,
            group_consumer_assignment_interval_ms=options.group_consumer_assignment_interval_ms,
            group_consumer_regex_refresh_interval_ms=options.group_consumer_regex_refresh_interval_ms,
            offsets_retention_ms=options.offsets_retention_minutes * 60_000,
            offsets_retention_check_interval_ms=options.offsets_retention_check_interval_ms,
            of_groups=of_groups,
        )


class Join(NamedTuple):
    """A request to join or rejoin a group.

    Attributes:
        group_id, member_id, instance_id, protocol_type, protocols: as in JoinGroup; `instance_id` is None if not
        static.
        session_timeout_ms: how long the member may go without sending a heartbeat.
        rebalance_timeout_ms: how long the member may take to rejoin.
        client_id: the client's name for itself.
        client_host: the host that the client connects from.
        needs_member_id: whether a new member must rejoin with the id assigned to it (KIP-394).
        may_skip_assignment: whether the client knows `skip_assignment` (KIP-814).
        may_describe: tells whether the member may describe a topic; None if it may describe all of them.
        new_member_id: the id of the member for which the coordinator has created the group; empty before that.
    """

    group_id: str
    member_id: str
    instance_id: str | None
    protocol_type: str
    protocols: Protocols
    session_timeout_ms: int
    rebalance_timeout_ms: int
    client_id: str
    client_host: str
    needs_member_id: bool
    may_skip_assignment: bool
    may_describe: Callable[[str], bool] | None = None
    new_member_id: str = ""

    def check_size(self) -> None:
        """Check that the member's record fits in the offsets topic.

        Raises:
            BrokerError: MESSAGE_TOO_LARGE.
        """
        if (size := sum(len(metadata) for _, metadata in self.protocols)) > PROTOCOLS_BYTES_MAX:
            text = f"the member's subscriptions have {size} bytes; the limit is {PROTOCOLS_BYTES_MAX}"
            raise BrokerError(ErrorCode.MESSAGE_TOO_LARGE, text)


class Sync(NamedTuple):
    """A request for a member's assignment; that of the leader carries the assignments of all members.

    Attributes:
        group_id, generation_id, member_id, instance_id: as in SyncGroup.
        protocol_type, protocol_name: the protocol that the member expects, or None if the version does not carry it.
        assignments: the assignments, keyed by member id; empty unless the leader sent the request.
    """

    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: Mapping[str, bytes]


class ConsumerHeartbeat(NamedTuple):
    """A KIP-848 heartbeat, which is also used to join, to change a subscription, and to leave.

    Attributes:
        group_id, member_id, epoch, instance_id, rack_id, rebalance_timeout_ms: as in ConsumerGroupHeartbeat.
        topics: the subscribed topic names, or None if unchanged.
        regex: subscription pattern for further names; empty for none, None if unchanged.
        assignor: the requested assignor; None to use the group's, or if unchanged.
        owned: owned partitions, keyed by topic id, or None if unchanged.
        client_id: the client's name for itself.
        client_host: the host that the client connects from.
        may_lack_id: whether a joining member may omit its id, in which case the coordinator generates one.
        may_describe: tells whether the member may describe a topic; None if it may describe all of them.
    """

    group_id: str
    member_id: str
    epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    topics: Sequence[str] | None
    regex: str | None
    assignor: str | None
    owned: Mapping[bytes, frozenset[int]] | None
    client_id: str
    client_host: str
    may_lack_id: bool = False
    may_describe: Callable[[str], bool] | None = None


class Commit(NamedTuple):
    """The sender of an offset commit.

    Attributes:
        group_id, generation_id, member_id, instance_id: as in OffsetCommit.
        knows_epochs: whether the request's version supports KIP-848 members.
    """

    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None
    knows_epochs: bool = True


class TransactionalCommit(NamedTuple):
    """The transaction to which an offset commit belongs.

    Attributes:
        transactional_id, producer_id, epoch: as in TxnOffsetCommit.
        version: the features that the request's sender supports (see `TransactionCoordinator.ensure_partitions`).
    """

    transactional_id: str
    producer_id: int
    epoch: int
    version: int


class Fetched(NamedTuple):
    """The offsets of a group.

    Attributes:
        offsets: committed offsets.
        unstable: partitions with pending offsets of open transactions.
    """

    offsets: Mapping[Partition, Committed]
    unstable: frozenset[Partition]
