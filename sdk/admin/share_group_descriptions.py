"""Plain values about share groups that an admin returns."""

from typing import TYPE_CHECKING, NamedTuple

from kafkawire.sdk.routing.partitions import TopicPartition

if TYPE_CHECKING:  # most programs do not need it
    from kafkawire.sdk.protocol.tables.enums import AclOperation

__all__ = ["ShareGroupDescription", "ShareMemberDescription", "SharePartitionOffset"]


class ShareMemberDescription(NamedTuple):
    """A member of a share group.

    Attributes:
        member_id: the id that the member has given itself.
        rack: its rack; None if it has none.
        client_id: the name that the client has given itself.
        client_host: the host from which it connected.
        subscription: the topics that it subscribes to.
        assignment: the partitions that it reads, which other members may also read.
        member_epoch: the group epoch that the member has reached.
    """

    member_id: str
    rack: str | None
    client_id: str
    client_host: str
    subscription: tuple[str, ...]
    assignment: tuple[TopicPartition, ...]
    member_epoch: int


class ShareGroupDescription(NamedTuple):
    """A share group.

    Attributes:
        group_id: its id.
        state: `Stable` or `Empty`.
        assignor: the assignor in use.
        members: all members.
        group_epoch: a number that increases when members, subscriptions or topics change.
        assignment_epoch: the group epoch for which the assignment was computed.
        authorized_operations: what this user may do with the group; None if this was not requested.
    """

    group_id: str
    state: str
    assignor: str
    members: tuple[ShareMemberDescription, ...]
    group_epoch: int
    assignment_epoch: int
    authorized_operations: "frozenset[AclOperation] | None" = None


class SharePartitionOffset(NamedTuple):
    """The progress of a share group in one partition.

    Attributes:
        start_offset: the first offset that may still be delivered; some records after it may be processed already.
        leader_epoch: the leader epoch of the start offset; None if unknown.
        lag: the number of records that are not processed yet; None if the broker does not report it (before Apache
            Kafka 4.2).
    """

    start_offset: int
    leader_epoch: int | None
    lag: int | None
