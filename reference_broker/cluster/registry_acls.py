"""The ACLs in a cluster's registry, as Apache Kafka 3.9 keeps them in ZooKeeper.

    CreateAcls, DeleteAcls ──▶ /kafka-acl/Topic/payments                      LITERAL, then a notification ──▶ brokers
                               /kafka-acl-extended/prefixed/Topic/orders-     PREFIXED, likewise

Any broker changes the ACLs of a resource, on condition that nobody else has changed them in the meantime. A node whose
content is damaged keeps the ACLs that were read before; if there are none, nobody but super users may use its
resources, since the damage may hide an ACL that denies something.

Source: `AclAuthorizer`, `ZkAclStore`, `ZkAclChangeStore`, `AclEntry` in Apache Kafka 3.9.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from functools import partial
from itertools import count
from typing import Any, Final, TypeVar

from kafkawire.reference_broker.cluster.change_notifications import ChangeNotifications
from kafkawire.reference_broker.cluster.registry_failures import broker_error
from kafkawire.reference_broker.metadata.acl_store import (
    NO_ACLS,
    CreateDone,
    DeletedAcl,
    DeletedAcls,
    DeleteDone,
)
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError, EncodeError
from kafkawire.sdk.protocol.acls import (
    WILDCARD,
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    ResourcePattern,
)
from kafkawire.sdk.protocol.tables.enums import AclOperation, AclPermissionType, PatternType, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.znodes import (
    ACL,
    ACL_CHANGE,
    ACL_CHANGES,
    ACL_RESOURCES,
    ACLS,
    EXTENDED_ACL,
    EXTENDED_ACL_CHANGE,
    EXTENDED_ACL_CHANGES,
    EXTENDED_ACL_PATTERNS,
    EXTENDED_ACL_RESOURCES,
    EXTENDED_ACLS,
    AclEntry,
    ExtendedAclChange,
    ResourceAcls,
)
from kafkawire.sdk.registry.acls import default_acl
from kafkawire.sdk.registry.content import DamagedZnode
from kafkawire.sdk.registry.paths import parent_of
from kafkawire.sdk.registry.registry import (
    Create,
    CreateMode,
    Data,
    Delete,
    Registry,
    RegistryCode,
    RegistryError,
    SetData,
)
from kafkawire.sdk.registry.steps import (
    ATTEMPTS_MAX,
    BATCH_MAX,
    Steps,
    across_sessions,
    create,
    create_with_parents,
    list_children,
    perform,
    read,
    read_all,
    run,
)
from kafkawire.sdk.registry.znodes import Znode

__all__ = ["RegistryAcls"]

_log = logging.getLogger("kafkawire.broker")

E = TypeVar("E", bound=IntEnum)

#: The name of the nodes for prefixes, below `/kafka-acl-extended`.
_PREFIXED: Final = "prefixed"

_TYPES: Final = tuple(kind for kind in ResourceType if kind not in (ResourceType.UNKNOWN, ResourceType.ANY))

#: Operations that Kafka 3.9 does not know; its brokers could not read an ACL for them.
_LATER: Final = frozenset({AclOperation.TWO_PHASE_COMMIT})

#: What a resource has if its ACLs cannot be read.
_DENIED: Final = (AccessControlEntry(f"User:{WILDCARD}", WILDCARD, AclOperation.ALL, AclPermissionType.DENY),)

#: The write has failed because another program was faster, or because an earlier attempt has succeeded after all.
_CONFLICTS: Final = frozenset({RegistryCode.BAD_VERSION, RegistryCode.NO_NODE, RegistryCode.NODE_EXISTS})

_Entries = tuple[AccessControlEntry, ...]


class RegistryAcls:
    """The ACLs in a registry; see `AclStore`.

    Args:
        registry: holds the ACLs.
        timers: used for the pauses after failures.
        clock: returns the time in ms.
        is_secure: whether only brokers may change the nodes (`zookeeper.set.acl`).
    """

    def __init__(
        self, registry: Registry, timers: Timers, clock: Callable[[], int], *, is_secure: bool = False
    ) -> None:
        self.image = NO_ACLS
        self.is_registry = True
        self._registry = registry
        self._acl = default_acl(is_secure=is_secure)
        self._followers = [
            self._follower(PatternType.LITERAL, ACL_CHANGES, ACL_CHANGE, timers, clock),
            self._follower(PatternType.PREFIXED, EXTENDED_ACL_CHANGES, EXTENDED_ACL_CHANGE, timers, clock),
        ]

    def _follower(
        self,
        pattern_type: PatternType,
        parent: Znode[None],
        notification: Znode[Any, int],
        timers: Timers,
        clock: Callable[[], int],
    ) -> ChangeNotifications:
        owner = _OfType(self, pattern_type)
        return ChangeNotifications(self._registry, parent, notification, owner, "ACLs", timers, clock, self._acl)

    # Following.

    def start(self, ready: Callable[[Exception | None], None]) -> None:
        """Create missing nodes, then read all ACLs and follow their changes.

        Args:
            ready: called once: with None when all ACLs have been read, or with the first error.
        """
        waiting = len(self._followers)
        first: Exception | None = None

        def followed(error: Exception | None) -> None:
            nonlocal waiting, first
            waiting -= 1
            first = first or error
            if not waiting:
                ready(first)

        def made(result: None) -> None:
            for follower in self._followers:
                follower.start(followed)

        run(self._registry, across_sessions(self._make_nodes), made, ready)

    def close(self) -> None:
        """Stop following."""
        for follower in self._followers:
            follower.close()

    def _make_nodes(self) -> Steps[None]:
        """Create the nodes that Kafka creates for ACLs, parents first, in one round trip."""
        paths = [ACLS.path(), EXTENDED_ACLS.path(), EXTENDED_ACL_PATTERNS.path(_PREFIXED)]
        paths += [ACL_CHANGES.path(), EXTENDED_ACL_CHANGES.path()]
        paths += [ACL_RESOURCES.path(_name(kind)) for kind in _TYPES]
        paths += [EXTENDED_ACL_RESOURCES.path(_PREFIXED, _name(kind)) for kind in _TYPES]
        outcomes = yield [Create(path, None, acl=self._acl) for path in paths]
        for path, outcome in zip(paths, outcomes, strict=True):
            if isinstance(outcome, RegistryError) and outcome.code is not RegistryCode.NODE_EXISTS:
                yield from create_with_parents(path, None, self._acl)

    # Changes.

    def create(self, bindings: Sequence[AclBinding], done: CreateDone) -> None:
        results: list[BrokerError | None] = []
        groups: dict[ResourcePattern, dict[int, AclBinding]] = {}
        for number, binding in enumerate(bindings):
            results.append(refusal := _refusal(binding))
            if refusal is None:
                groups.setdefault(binding.pattern, {})[number] = binding

        def change(pattern: ResourcePattern, group: Mapping[int, AclBinding], ended: Callable[[], None]) -> None:
            wrong = [each for each in group.values() if ":" not in each.entry.principal]
            if wrong:
                # As in Kafka, one wrong principal spoils all ACLs of the resource.
                _log.info("%r is not of the form User:name", wrong[0].entry.principal)
                failed(group, ended, BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR))
                return
            wanted = [binding.entry for binding in group.values()]

            def with_wanted(known: _Entries) -> _Entries:
                return tuple(dict.fromkeys((*known, *wanted)))

            steps = self._revise_across_sessions(pattern, with_wanted)
            run(self._registry, steps, lambda _: ended(), partial(failed, group, ended))

        def failed(group: Mapping[int, AclBinding], ended: Callable[[], None], error: Exception) -> None:
            refused = _change_error(error, "ACLs were not created")
            for number in group:
                results[number] = refused
            ended()

        _one_after_another([partial(change, *each) for each in groups.items()], lambda: done(results))

    def delete(self, filters: Sequence[AclBindingFilter], done: DeleteDone) -> None:
        results: list[list[DeletedAcl]] = [[] for _ in filters]
        patterns = dict.fromkeys(self.image.entries)
        for each in filters:
            patterns.update(dict.fromkeys(each.pattern_filter.patterns or ()))

        def change(pattern: ResourcePattern, ended: Callable[[], None]) -> None:
            matching = [(number, each) for number, each in enumerate(filters) if each.pattern_filter.matches(pattern)]
            #: The first filter that matches each entry, which alone reports it, as in Kafka.
            gone: dict[AccessControlEntry, int] = {}

            def kept(known: _Entries) -> _Entries:
                for entry in known:
                    for number, each in matching:
                        if each.entry_filter.matches(entry):
                            gone.setdefault(entry, number)
                            break
                return tuple(entry for entry in known if entry not in gone)

            def finish(error: BrokerError | None) -> None:
                for entry, number in gone.items():
                    results[number].append(DeletedAcl(AclBinding(pattern, entry), error))
                ended()

            if not matching:
                ended()
                return
            steps = self._revise_across_sessions(pattern, kept)
            run(
                self._registry,
                steps,
                lambda _: finish(None),
                lambda error: finish(_change_error(error, "ACLs were not deleted")),
            )

        def told() -> None:
            deleted: list[DeletedAcls] = [*results]
            done(deleted)

        _one_after_another([partial(change, pattern) for pattern in patterns], told)

    def _revise_across_sessions(self, pattern: ResourcePattern, revise: Callable[[_Entries], _Entries]) -> Steps[None]:
        runs = count()
        return across_sessions(lambda: self._revise(pattern, revise, is_again=next(runs) > 0))

    def _revise(
        self, pattern: ResourcePattern, revise: Callable[[_Entries], _Entries], *, is_again: bool
    ) -> Steps[None]:
        """Change the entries of a resource, announce the change, and put it into the image.

        Args:
            pattern: the resource.
            revise: returns the new entries; called again if another program changes them at the same time.
            is_again: whether an earlier attempt may have made the change without announcing it.

        Raises:
            DamagedZnode: the node cannot be read.
            EncodeError: the name cannot be that of a node.
            RegistryError: the registry refused an operation, or another program was faster each time.
        """
        path = _path(pattern)
        for attempt in range(ATTEMPTS_MAX):
            data = yield from read(path)
            before = _entries_of(path, data)
            after = revise(before)
            if after == before:
                if attempt or is_again:
                    yield from self._announce(pattern)
                self._take(pattern, after)
                return
            content = ACL.encode(ResourceAcls(tuple(map(_written, after))))
            change: Create | SetData | Delete
            if data is None:
                change = Create(path, content, acl=self._acl)
            elif after:
                change = SetData(path, content, data.stat.version)
            else:
                change = Delete(path, data.stat.version)
            outcome = yield from perform(change)
            if not isinstance(outcome, RegistryError):
                self._take(pattern, after)
                yield from self._announce(pattern)
                return
            if outcome.code not in _CONFLICTS:
                raise outcome
            if data is None and outcome.code is RegistryCode.NO_NODE:
                yield from create_with_parents(parent_of(path), None, self._acl)
        detail = f"another program changed the node during each of {ATTEMPTS_MAX} attempts"
        raise RegistryError(RegistryCode.BAD_VERSION, path, detail)

    def _announce(self, pattern: ResourcePattern) -> Steps[None]:
        kind, name, pattern_type = pattern
        if pattern_type == PatternType.LITERAL:
            prefix, content = ACL_CHANGE.prefix, ACL_CHANGE.encode(f"{kind.name}:{name}")
        else:
            prefix = EXTENDED_ACL_CHANGE.prefix
            content = EXTENDED_ACL_CHANGE.encode(ExtendedAclChange(kind.name, name, pattern_type.name))
        yield from create(prefix, content, CreateMode.PERSISTENT_SEQUENTIAL, self._acl)

    def _take(self, pattern: ResourcePattern, entries: Collection[AccessControlEntry]) -> None:
        """Put the entries of a resource into the image."""
        if tuple(entries) != self.image.entries.get(pattern, ()):
            self.image = self.image.with_entries({pattern: entries})

    # Reading.

    def read_all_of(self, pattern_type: PatternType) -> Steps[None]:
        """Read all ACLs with a pattern type.

        Raises:
            RegistryError: some of them could not be read.
        """
        known = self.image.entries
        is_literal = pattern_type == PatternType.LITERAL
        root = ACLS.path() if is_literal else EXTENDED_ACL_PATTERNS.path(_PREFIXED)
        listed = yield from list_children(root)
        patterns: list[ResourcePattern] = []
        for name in () if listed is None else listed.names:
            kind = _enumerated(ResourceType, name)
            if kind not in _TYPES:
                _log.warning("ignoring ACLs for the unknown resource type %s", name)
                continue
            resources = yield from list_children(f"{root}/{name}")
            if resources is not None:
                patterns += [ResourcePattern(kind, each, pattern_type) for each in resources.names]
        yield from self.read_some(patterns)
        gone = {each for each in known if each.pattern_type == pattern_type}.difference(patterns)
        if gone:
            self.image = self.image.with_entries(dict.fromkeys(gone, ()))

    def read_some(self, patterns: Iterable[ResourcePattern]) -> Steps[None]:
        """Read the ACLs of some resources.

        Raises:
            RegistryError: some of them could not be read.
        """
        wanted = list(dict.fromkeys(patterns))
        # The outcomes of a batch arrive in the order in which the registry carried out the reads, and before the
        # outcomes of later operations, so older ACLs never replace newer ones.
        for begin in range(0, len(wanted), BATCH_MAX):
            batch = wanted[begin : begin + BATCH_MAX]
            outcomes = yield from read_all(list(map(_path, batch)))
            changed = {}
            for pattern, data in zip(batch, outcomes, strict=True):
                entries = self._readable(pattern, data)
                if entries != self.image.entries.get(pattern, ()):
                    changed[pattern] = entries
            if changed:
                self.image = self.image.with_entries(changed)

    def _readable(self, pattern: ResourcePattern, data: Data | None) -> _Entries:
        """Return the entries in a node; if it is damaged, those that apply instead."""
        try:
            return _entries_of(_path(pattern), data)
        except DamagedZnode as error:
            entries = self.image.entries.get(pattern) or _DENIED
            does = "are denied to everybody" if entries == _DENIED else "keep their earlier ACLs"
            _log.error("the resources of damaged ACLs %s: %s", does, error)
            return entries


class _OfType:
    """The ACLs with one pattern type, as their notifications see them; see `Notified`."""

    def __init__(self, acls: RegistryAcls, pattern_type: PatternType) -> None:
        self._acls = acls
        self._pattern_type = pattern_type

    def read_all(self) -> Steps[None]:
        return self._acls.read_all_of(self._pattern_type)

    def read_changed(self, notifications: Mapping[str, bytes | None]) -> Steps[None]:
        patterns = [_announced(self._pattern_type, path, content) for path, content in notifications.items()]
        return self._acls.read_some(each for each in patterns if each is not None)


def _one_after_another(actions: Sequence[Callable[[Callable[[], None]], None]], done: Callable[[], None]) -> None:
    """Begin each action when the previous one has ended; then call `done`."""
    waiting = iter(actions)
    is_looping = False
    has_ended = False

    def ended() -> None:
        nonlocal is_looping, has_ended
        has_ended = True
        if is_looping:
            return  # the action has ended immediately; the loop continues
        is_looping = True
        while has_ended:
            action = next(waiting, None)
            if action is None:
                done()
                return
            has_ended = False
            action(ended)
        is_looping = False

    ended()


def _refusal(binding: AclBinding) -> BrokerError | None:
    """Return why an ACL cannot be created, as `AclAuthorizer.validateAclBinding` does; None if it can be."""
    (kind, name, pattern_type), (_, _, operation, permission) = binding
    is_known = kind in _TYPES and pattern_type and operation and permission
    if is_known and operation not in _LATER and "/" not in name:
        return None
    return BrokerError(ErrorCode.INVALID_REQUEST, "Failed to create ACL")


def _change_error(error: Exception, action: str) -> BrokerError:
    """Return the error for a client; like Kafka, without a text if the registry is at fault."""
    if isinstance(error, EncodeError):
        _log.info("%s: %s", action, error)
        return BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return broker_error(error, action)


# Nodes.


def _name(member: IntEnum) -> str:
    """Return the name of a type, an operation or a permission in the registry: `TransactionalId`."""
    return "".join(map(str.capitalize, member.name.split("_")))


def _enumerated(kind: type[E], name: str) -> E:
    """Return what a name in the registry stands for; as in Kafka, it may be in capitals, and is otherwise UNKNOWN."""
    wanted = name.upper()
    return next((member for member in kind if _name(member).upper() == wanted), kind(0))


def _path(pattern: ResourcePattern) -> str:
    kind, name, pattern_type = pattern
    if pattern_type == PatternType.LITERAL:
        return ACL.path(_name(kind), name)
    return EXTENDED_ACL.path(_PREFIXED, _name(kind), name)


def _entries_of(path: str, data: Data | None) -> _Entries:
    """Return the entries in a node.

    Raises:
        DamagedZnode: Kafka would not accept the content.
    """
    if data is None:
        return ()
    entries: dict[AccessControlEntry, None] = {}
    for principal, permission, host, operation in ACL.decode(data.data, path).acls:
        if ":" not in principal:
            raise DamagedZnode(path, "acls", f"{principal!r:.80} is not of the form User:name")
        kind, allowed = _enumerated(AclOperation, operation), _enumerated(AclPermissionType, permission)
        entries[AccessControlEntry(principal, host, kind, allowed)] = None
    return tuple(entries)


def _written(entry: AccessControlEntry) -> AclEntry:
    return AclEntry(entry.principal, _name(entry.permission_type), entry.host, _name(entry.operation))


def _announced(pattern_type: PatternType, path: str, content: bytes | None) -> ResourcePattern | None:
    """Return the pattern that a notification names; None if it is damaged."""
    try:
        if pattern_type == PatternType.LITERAL:
            text, colon, name = ACL_CHANGE.decode(content, path).partition(":")
        else:
            change = EXTENDED_ACL_CHANGE.decode(content, path)
            text, colon, name = change.resource_type, ":", change.name
        kind = ResourceType.__members__.get(text.upper())
        if kind is None or kind not in _TYPES or not colon or not name:
            raise DamagedZnode(path, "", "does not name a resource")
        pattern = ResourcePattern(kind, name, pattern_type)
        _path(pattern)
    except (DamagedZnode, EncodeError) as error:
        _log.error("ignoring a notification about changed ACLs: %s", error)
        return None
    return pattern
