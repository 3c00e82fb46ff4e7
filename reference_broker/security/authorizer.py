"""The authorizer: decides by ACLs whether a client may perform an operation on a resource.

    handler ──allows──▶ Authorizer ──image──▶ AclStore

A DENY entry takes precedence over every ALLOW entry, wherever the two come from: the name, the wildcard or a prefix.
READ, WRITE, DELETE and ALTER include DESCRIBE; ALTER_CONFIGS includes DESCRIBE_CONFIGS. Decisions are kept until the
ACLs change, so that most of them cost one look-up.

Source: `StandardAuthorizerData`, `Authorizer.authorizeByResourceType` in Apache Kafka 4.3; `AclAuthorizer` in 3.9.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from ipaddress import AddressValueError, IPv6Address
from typing import Final, NamedTuple, Protocol, runtime_checkable

from kafkawire.reference_broker.config.authorizer_options import super_user_names
from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.reference_broker.metadata.acl_store import NO_ACLS, AclImage, AclStore
from kafkawire.reference_broker.metadata.principal import USER, KafkaPrincipal
from kafkawire.sdk.protocol.acls import WILDCARD, AccessControlEntry, ResourcePattern
from kafkawire.sdk.protocol.tables.enums import AclOperation, AclPermissionType, PatternType, ResourceType

__all__ = ["DECISIONS_MAX", "AclAuthorizer", "Authorizer", "NoAuthorizer", "Requester", "authorizer_of", "java_address"]

#: Allowed and denied operations; Kafka's name is `kafka.authorizer.logger`.
_audit = logging.getLogger("kafkawire.broker.authorizer")

#: How many decisions are kept. A thousand connections, each using ten resources, fit; a hundred bytes each make a
#: megabyte. When there are more, all are dropped, which costs less than finding the oldest.
DECISIONS_MAX: Final = 10_000

#: Longer names are not kept with a decision: no topic has one, and other names may be as long as a request.
_NAME_CHARACTERS_MAX: Final = 300

#: The operations that include another one, if they are allowed. A DENY entry for one of them does not deny the other.
_INCLUDED_IN: Final = {
    AclOperation.DESCRIBE: frozenset(
        {
            AclOperation.ALL,
            AclOperation.DESCRIBE,
            AclOperation.READ,
            AclOperation.WRITE,
            AclOperation.DELETE,
            AclOperation.ALTER,
        }
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset(
        {AclOperation.ALL, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS}
    ),
}

#: Finer than DEBUG, for decisions that neither grant nor refuse anything that the client asked for.
_TRACE: Final = 5

#: The name of a resource that stands for any other one when a super user is searched for, as in Kafka.
_ANY_NAME: Final = "hardcode"

_TYPE_NAMES: Final = {kind: "".join(map(str.capitalize, kind.name.split("_"))) for kind in ResourceType}

_EVERYBODY: Final = KafkaPrincipal(USER, WILDCARD)


class _Peer(Protocol):
    """A client."""

    principal: KafkaPrincipal
    host: str


class _Api(Protocol):
    """An API."""

    @property
    def name(self) -> str:
        """Its name, for the log."""
        ...


class Requester(Protocol):
    """What an authorizer needs to know about a request.

    Attributes:
        peer: the client, with its principal and its address in Kafka's form, `/127.0.0.1`.
        api: the API of the request.
    """

    @property
    def peer(self) -> _Peer:
        """See above."""
        ...

    @property
    def api(self) -> _Api:
        """See above."""
        ...


@runtime_checkable  # tests check a broker's parts against the names that handlers use
class Authorizer(Protocol):
    """Decides what clients may do.

    Attributes:
        acls: the ACLs; None if anybody may do anything.
        is_registry: whether the broker belongs to a cluster with a registry, where Apache Kafka 3.9 applies.
    """

    acls: AclStore | None
    is_registry: bool

    @property
    def state(self) -> object:
        """An object that stays the same until decisions may change."""
        ...

    def allows(
        self,
        requester: Requester,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        *,
        logs_allowed: bool = True,
        logs_denied: bool = True,
        count: int = 1,
    ) -> bool:
        """Return whether a client may perform an operation on a resource.

        Args:
            requester: the request.
            operation: the operation.
            resource_type: the type of the resource.
            name: the name of the resource.
            logs_allowed: whether the client gains anything if it may; if not, this is not worth a line in the log.
            logs_denied: whether the client asked for the resource itself; if not, likewise.
            count: how many times the request names the resource, for the log.
        """
        ...

    def allows_any(self, requester: Requester, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Return whether a client may perform an operation on at least one resource of a type, existing or not."""
        ...

    def allowed(
        self,
        requester: Requester,
        operation: AclOperation,
        resource_type: ResourceType,
        names: Collection[str],
        *,
        logs_denied: bool = True,
    ) -> Collection[str]:
        """Return those resources on which a client may perform an operation; see `allows`."""
        ...


class NoAuthorizer:
    """Allows everything; see `Authorizer`.

    Args:
        is_registry: see `Authorizer`.
    """

    def __init__(self, *, is_registry: bool = False) -> None:
        self.acls: AclStore | None = None
        self.is_registry = is_registry

    @property
    def state(self) -> object:
        return None

    def allows(
        self,
        requester: Requester,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        *,
        logs_allowed: bool = True,
        logs_denied: bool = True,
        count: int = 1,
    ) -> bool:
        return True

    def allows_any(self, requester: Requester, operation: AclOperation, resource_type: ResourceType) -> bool:
        return True

    def allowed(
        self,
        requester: Requester,
        operation: AclOperation,
        resource_type: ResourceType,
        names: Collection[str],
        *,
        logs_denied: bool = True,
    ) -> Collection[str]:
        return names


class _Decision(NamedTuple):
    """A decision, and the ACL on which it is based.

    Attributes:
        is_allowed: whether the operation is allowed.
        rule: `SuperUser`, `DefaultAllow`, `DefaultDeny`, or empty if an ACL decided.
        pattern: the pattern of the ACL.
        entry: the entry of the ACL.
    """

    is_allowed: bool
    rule: str = ""
    pattern: ResourcePattern | None = None
    entry: AccessControlEntry | None = None

    def __str__(self) -> str:
        """Return the rule in Kafka's words."""
        if self.pattern is None or self.entry is None:
            return self.rule
        kind, name, pattern_type = self.pattern
        principal, host, operation, permission = self.entry
        fields = (
            f"resourceType={kind.name}, resourceName={name}, patternType={pattern_type.name}, principal={principal}, "
            f"host={host}, operation={operation.name}, permissionType={permission.name}"
        )
        return f"MatchingAcl(acl=StandardAcl[{fields}])"


_SUPER_USER: Final = _Decision(is_allowed=True, rule="SuperUser")
_DEFAULT_ALLOW: Final = _Decision(is_allowed=True, rule="DefaultAllow")
_DEFAULT_DENY: Final = _Decision(is_allowed=False, rule="DefaultDeny")


class AclAuthorizer:
    """Decides by ACLs; see `Authorizer`.

    Args:
        acls: the ACLs.
        super_users: the principals that may do anything.
        allows_without_acls: whether anybody may use a resource for which there are no ACLs at all
            (`allow.everyone.if.no.acl.found`).
    """

    def __init__(self, acls: AclStore, super_users: Collection[KafkaPrincipal], *, allows_without_acls: bool) -> None:
        self.acls: AclStore | None = acls
        self.is_registry = acls.is_registry
        self._store = acls
        self._super_users = frozenset(super_users)
        self._default = _DEFAULT_ALLOW if allows_without_acls else _DEFAULT_DENY
        self._image: AclImage = NO_ACLS
        #: Keyed by principal, host, operation, resource type and name; the name is None if any resource will do.
        self._decisions: dict[tuple[KafkaPrincipal, str, AclOperation, ResourceType, str | None], _Decision] = {}

    @property
    def state(self) -> object:
        return self._store.image

    def allows(
        self,
        requester: Requester,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        *,
        logs_allowed: bool = True,
        logs_denied: bool = True,
        count: int = 1,
    ) -> bool:
        if self._store.image is not self._image or len(self._decisions) >= DECISIONS_MAX:
            self._forget_decisions()
        peer = requester.peer
        decision = self._decisions.get((peer.principal, peer.host, operation, resource_type, name))
        if decision is None:
            decision = self._decide(peer.principal, peer.host, operation, resource_type, name)
            if len(name) <= _NAME_CHARACTERS_MAX:
                self._decisions[peer.principal, peer.host, operation, resource_type, name] = decision
        if decision.is_allowed:
            level = logging.DEBUG if logs_allowed else _TRACE
        else:
            level = logging.INFO if logs_denied else _TRACE
        if _audit.isEnabledFor(level):
            resource = f"{_TYPE_NAMES[resource_type]}:LITERAL:{name}"
            self._log(level, requester, operation, resource, count, decision)
        return decision.is_allowed

    def allowed(
        self,
        requester: Requester,
        operation: AclOperation,
        resource_type: ResourceType,
        names: Collection[str],
        *,
        logs_denied: bool = True,
    ) -> Collection[str]:
        return {
            name for name in names if self.allows(requester, operation, resource_type, name, logs_denied=logs_denied)
        }

    def allows_any(self, requester: Requester, operation: AclOperation, resource_type: ResourceType) -> bool:
        if self._store.image is not self._image or len(self._decisions) >= DECISIONS_MAX:
            self._forget_decisions()
        peer = requester.peer
        key = peer.principal, peer.host, operation, resource_type, None
        decision = self._decisions.get(key)
        if decision is None:
            is_allowed = self._allows_any(peer.principal, peer.host, operation, resource_type)
            decision = self._decisions[key] = _DEFAULT_ALLOW if is_allowed else _DEFAULT_DENY
        level = logging.DEBUG if decision.is_allowed else logging.INFO
        if _audit.isEnabledFor(level):
            resource = f"{_TYPE_NAMES[resource_type]}:UNKNOWN:NONE"
            self._log(level, requester, operation, resource, 0, decision)
        return decision.is_allowed

    # Decisions.

    def _forget_decisions(self) -> None:
        self._image = self._store.image
        self._decisions.clear()

    def _decide(
        self, principal: KafkaPrincipal, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> _Decision:
        if principal in self._super_users:
            return _SUPER_USER
        matching = _matching(principal, host)
        including = _INCLUDED_IN.get(operation, (AclOperation.ALL, operation))
        allowing: _Decision | None = None
        has_acls = False
        for pattern in _applying(self._image, resource_type, name):
            has_acls = True
            for entry in self._image.entries[pattern]:
                if entry.operation not in including or not matching(entry):
                    continue
                if entry.permission_type == AclPermissionType.ALLOW:
                    allowing = _Decision(True, pattern=pattern, entry=entry)
                elif entry.operation in (AclOperation.ALL, operation):
                    return _Decision(False, pattern=pattern, entry=entry)
        if allowing is not None:
            return allowing
        return _DEFAULT_DENY if has_acls else self._default

    def _allows_any(
        self, principal: KafkaPrincipal, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        if principal in self._super_users:
            return True
        if not self.is_registry and self._decide(principal, host, operation, resource_type, _ANY_NAME).is_allowed:
            return True
        matching = _matching(principal, host)
        allowed: list[ResourcePattern] = []
        denied: set[ResourcePattern] = set()
        for pattern, entries in self._image.entries.items():
            if pattern.resource_type != resource_type:
                continue
            for entry in entries:
                # Here, no operation includes another one.
                if entry.operation in (AclOperation.ALL, operation) and matching(entry):
                    if entry.permission_type == AclPermissionType.DENY:
                        denied.add(pattern)
                    else:
                        allowed.append(pattern)
        if ResourcePattern(resource_type, WILDCARD) in denied:
            return False
        if self.is_registry and self._default.is_allowed:
            return True
        return any(not _is_denied(pattern, denied) for pattern in allowed)

    def _log(
        self,
        level: int,
        requester: Requester,
        operation: AclOperation,
        resource: str,
        count: int,
        decision: _Decision,
    ) -> None:
        _audit.log(
            level,
            "Principal = %s is %s operation = %s from host = %s on resource = %s for request = %s with "
            "resourceRefCount = %d based on rule %s",
            _printable(str(requester.peer.principal)),
            "Allowed" if decision.is_allowed else "Denied",
            operation.name,
            java_address(requester.peer.host.removeprefix("/")),
            _printable(resource),
            requester.api.name,
            count,
            _printable(str(decision)),
        )


def authorizer_of(options: BrokerOptions, acls: AclStore | None, *, is_registry: bool) -> Authorizer:
    """Return the authorizer of a broker.

    Args:
        options: broker options.
        acls: the ACLs; None if the broker has no authorizer.
        is_registry: see `Authorizer`.
    """
    if acls is None:
        return NoAuthorizer(is_registry=is_registry)
    super_users = [KafkaPrincipal.parse(name) for name in super_user_names(options.super_users)]
    return AclAuthorizer(acls, super_users, allows_without_acls=options.allow_everyone_if_no_acl_found)


def _applying(image: AclImage, resource_type: ResourceType, name: str) -> Iterator[ResourcePattern]:
    """Yield the patterns that apply to a resource and have entries."""
    own, wildcard = ResourcePattern(resource_type, name), ResourcePattern(resource_type, WILDCARD)
    if own in image.entries:
        yield own
    yield from image.prefixes(resource_type, name)
    if wildcard in image.entries and wildcard != own:
        yield wildcard


def _matching(principal: KafkaPrincipal, host: str) -> Callable[[AccessControlEntry], bool]:
    """Return a function that tells whether an entry is about a client."""
    principals = (str(principal), str(_EVERYBODY))
    hosts = (java_address(host.removeprefix("/")), WILDCARD)
    return lambda entry: entry.principal in principals and entry.host in hosts


def java_address(host: str) -> str:
    """Return an address as Java writes it, which is how ACLs name it: an IPv6 address without `::`."""
    if ":" not in host:
        return host
    address, percent, zone = host.partition("%")
    try:
        parsed = IPv6Address(address)
    except AddressValueError:
        return host
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return ":".join(f"{int(group, 16):x}" for group in parsed.exploded.split(":")) + percent + zone


def _is_denied(pattern: ResourcePattern, denied: Collection[ResourcePattern]) -> bool:
    """Return whether everything that a pattern allows is denied by another one."""
    kind, name, pattern_type = pattern
    if pattern_type == PatternType.LITERAL:
        if name == WILDCARD:
            return False
        if pattern in denied:
            return True
    # A denied prefix denies every name that begins with it.
    return any(
        ResourcePattern(kind, name[:length], PatternType.PREFIXED) in denied for length in range(1, len(name) + 1)
    )


def _printable(text: str) -> str:
    """Return a text without control characters, which would forge lines in the log."""
    return text if text.isprintable() else ascii(text)
