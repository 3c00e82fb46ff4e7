"""Controller election: the broker that creates `/controller` wins.

The node and the next epoch are written in one transaction. A broker is elected only if its current session owns the
node, and not if an expired session left the node behind.

Source: `KafkaZkClient.registerControllerAndIncrementControllerEpoch`, `KafkaController.elect` in Apache Kafka.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from kafkawire.sdk.options import INT32_MAX
from kafkawire.sdk.protocol.tables.enums import NO_CONTROLLER_ID
from kafkawire.sdk.protocol.tables.znodes import CONTROLLER, CONTROLLER_EPOCH, ControllerRegistration
from kafkawire.sdk.registry.acls import OPEN_ACL, Acl
from kafkawire.sdk.registry.content import DamagedZnode
from kafkawire.sdk.registry.registry import (
    Committed,
    Create,
    CreateMode,
    Data,
    Exists,
    GetData,
    RegistryCode,
    RegistryError,
    SetData,
    Stat,
    Transaction,
    Watcher,
)
from kafkawire.sdk.registry.steps import Steps, expected, found, perform, read

__all__ = ["Elected", "Incumbent", "elect", "incumbent", "last_epoch"]

_log = logging.getLogger("kafkawire.broker")


class Incumbent(NamedTuple):
    """The broker that is registered as the controller.

    Attributes:
        broker_id: the broker's id, or `NO_CONTROLLER_ID` if the registration cannot be read.
        session_id: the session that owns the registration; 0 for a KRaft controller.
    """

    broker_id: int
    session_id: int


class Elected(NamedTuple):
    """This broker is the controller.

    Attributes:
        epoch: the epoch of the controller.
        epoch_version: the version of the node that stores it.
    """

    epoch: int
    epoch_version: int


def incumbent(watcher: Watcher | None) -> Steps[Incumbent | None]:
    """Read who the controller is, and watch for changes; return None if there is no controller."""
    path = CONTROLLER.path()
    # The watch is set even if the node does not exist.
    _, outcome = yield (Exists(path, watcher), GetData(path, watcher))
    data = found(outcome, Data)
    if data is None:
        return None
    try:
        broker_id = CONTROLLER.decode(data.data, path).broker_id
    except DamagedZnode as error:
        _log.error("the controller is unknown: %s", error)
        broker_id = NO_CONTROLLER_ID
    return Incumbent(broker_id, data.stat.ephemeral_owner)


def elect(broker_id: int, session_id: int, now_ms: int, acl: tuple[Acl, ...] = OPEN_ACL) -> Steps[Elected | None]:
    """Try to become the controller.

    Args:
        broker_id: the id of this broker.
        session_id: the id of its session.
        now_ms: the time, for the registration.
        acl: the access control list for created nodes.

    Returns:
        None if another broker was faster.

    Raises:
        DamagedZnode: the epoch cannot be read.
        RegistryError: the nodes cannot be written.
    """
    epoch, version = yield from last_epoch(acl)
    registration = CONTROLLER.encode(ControllerRegistration(broker_id, now_ms))
    create = Create(CONTROLLER.path(), registration, CreateMode.EPHEMERAL, acl)
    increment = SetData(CONTROLLER_EPOCH.path(), CONTROLLER_EPOCH.encode(epoch + 1), version)
    outcome = yield from perform(Transaction((create, increment)))
    if not isinstance(outcome, RegistryError):
        return Elected(epoch + 1, expected(expected(outcome, Committed).results[1], Stat).version)
    if outcome.code not in (RegistryCode.NODE_EXISTS, RegistryCode.BAD_VERSION):
        raise outcome
    # The transaction's outcome may have been lost, and the transaction resent.
    known = yield from incumbent(None)
    data = yield from read(CONTROLLER_EPOCH.path())
    is_own = known is not None and known == Incumbent(broker_id, session_id)
    if is_own and data is not None and CONTROLLER_EPOCH.decode(data.data) == epoch + 1:
        return Elected(epoch + 1, data.stat.version)
    return None


def last_epoch(acl: tuple[Acl, ...] = OPEN_ACL) -> Steps[tuple[int, int]]:
    """Return the last epoch and the version of its node; create the node if it does not exist.

    Raises:
        DamagedZnode: the epoch cannot be read, or the next one cannot be written.
        RegistryError: the node cannot be read or created.
    """
    path = CONTROLLER_EPOCH.path()
    data = yield from read(path)
    if data is None:
        outcome = yield from perform(Create(path, CONTROLLER_EPOCH.encode(0), acl=acl))
        if isinstance(outcome, RegistryError) and outcome.code is not RegistryCode.NODE_EXISTS:
            raise outcome
        data = yield from read(path)
    if data is None:
        raise RegistryError(RegistryCode.NO_NODE, path, "another program keeps deleting the node")
    epoch = CONTROLLER_EPOCH.decode(data.data, path)
    if epoch not in range(INT32_MAX):
        raise DamagedZnode(path, "", f"the controller epoch must be from 0 to {INT32_MAX - 1}, got {epoch}")
    return epoch, data.stat.version
