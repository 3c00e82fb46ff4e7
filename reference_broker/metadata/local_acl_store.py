"""The ACLs of a standalone broker, in a file of its data directory.

    acls     topic/prefixed/orders-/User:alice/*/read=allow, one line for each entry

Changes are made in order, and take effect once durable.

Source: `AclControlManager` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from kafkawire.reference_broker.metadata.acl_store import AclImage, CreateDone, DeletedAcl, DeleteDone
from kafkawire.reference_broker.metadata.stored_entries import StoredEntries, quoted, unquoted
from kafkawire.reference_broker.storage.checkpoints import ACLS, DamagedFile
from kafkawire.reference_broker.storage.directory.log_directory import LogDirectory
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.acls import AccessControlEntry, AclBinding, AclBindingFilter, ResourcePattern
from kafkawire.sdk.protocol.tables.enums import AclOperation, AclPermissionType, PatternType, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["LocalAclStore"]


class LocalAclStore:
    """The ACLs of a broker; see `AclStore`.

    A change fails with POLICY_VIOLATION if the file would become too large, and with KAFKA_STORAGE_ERROR if the disk
    fails.

    Args:
        directory: the directory that holds the file.

    Raises:
        DamagedFile: the file contains a line that is not an ACL.
    """

    def __init__(self, directory: LogDirectory) -> None:
        self.is_registry = False
        self._stored = StoredEntries(directory, ACLS, "ACLs")
        self.image = _image_of(self._stored.entries, self._stored.path)

    def create(self, bindings: Sequence[AclBinding], done: CreateDone) -> None:
        results = [_refusal(binding) for binding in bindings]
        wanted = [binding for binding, error in zip(bindings, results, strict=True) if error is None]

        def revised() -> AclImage:
            return _with(self.image, wanted)

        def written(error: BrokerError | None) -> None:
            done([error if refusal is None else refusal for refusal in results])

        self._change(revised, written)

    def delete(self, filters: Sequence[AclBindingFilter], done: DeleteDone) -> None:
        refusals = list(map(_filter_refusal, filters))
        matching: list[list[AclBinding]] = [[] for _ in filters]

        def revised() -> AclImage:
            for each, found, refusal in zip(filters, matching, refusals, strict=True):
                if refusal is None:
                    found.extend(filter(each.matches, self.image))
            return _without(self.image, {binding for found in matching for binding in found})

        def written(error: BrokerError | None) -> None:
            done(
                [
                    refusal or error or [DeletedAcl(binding) for binding in found]
                    for found, refusal in zip(matching, refusals, strict=True)
                ]
            )

        self._change(revised, written)

    def _change(self, revise: Callable[[], AclImage], done: Callable[[BrokerError | None], None]) -> None:
        after = self.image

        def entries(stored: Mapping[str, str]) -> Mapping[str, str]:
            nonlocal after
            after = revise()
            return stored if after is self.image else _entries_of(after)

        def written(error: BrokerError | None) -> None:
            if error is None:
                self.image = after
            done(error)

        self._stored.change(entries, written)


def _refusal(binding: AclBinding) -> BrokerError | None:
    """Return why an ACL cannot be created, as `AclControlManager.validateNewAcl` does; None if it can be."""
    (kind, name, pattern_type), (principal, _, operation, permission) = binding
    reason = None
    if kind in (ResourceType.UNKNOWN, ResourceType.ANY):
        reason = f"Invalid resourceType {kind.name}"
    elif pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        reason = f"Invalid patternType {pattern_type.name}"
    elif operation in (AclOperation.UNKNOWN, AclOperation.ANY):
        reason = f"Invalid operation {operation.name}"
    elif permission not in (AclPermissionType.DENY, AclPermissionType.ALLOW):
        reason = f"Invalid permissionType {permission.name}"
    elif not name:
        reason = "Resource name should not be empty"
    elif ":" not in principal:
        reason = (
            f"Could not parse principal from `{principal}` (no colon is present separating the principal type from "
            "the principal name)"
        )
    return None if reason is None else BrokerError(ErrorCode.INVALID_REQUEST, reason)


def _filter_refusal(each: AclBindingFilter) -> BrokerError | None:
    """Return why a filter cannot be used, as `AclControlManager.validateFilter` does; None if it can be."""
    if each.pattern_filter.resource_type == ResourceType.UNKNOWN or (
        each.pattern_filter.pattern_type == PatternType.UNKNOWN
    ):
        return BrokerError(ErrorCode.INVALID_REQUEST, "Unknown patternFilter.")
    if each.entry_filter.operation == AclOperation.UNKNOWN or (
        each.entry_filter.permission_type == AclPermissionType.UNKNOWN
    ):
        return BrokerError(ErrorCode.INVALID_REQUEST, "Unknown entryFilter.")
    return None


def _with(image: AclImage, bindings: Sequence[AclBinding]) -> AclImage:
    """Return an image that also has these ACLs; the same one if it has them already."""
    changed: dict[ResourcePattern, dict[AccessControlEntry, None]] = {}
    for pattern, entry in bindings:
        known = image.entries.get(pattern, ())
        if entry not in known:
            changed.setdefault(pattern, dict.fromkeys(known))[entry] = None
    return image.with_entries(changed) if changed else image


def _without(image: AclImage, bindings: Collection[AclBinding]) -> AclImage:
    """Return an image that lacks these ACLs, all of which the given one has; the same one if there are none."""
    gone: dict[ResourcePattern, set[AccessControlEntry]] = {}
    for pattern, entry in bindings:
        gone.setdefault(pattern, set()).add(entry)
    kept = {pattern: [each for each in image.entries[pattern] if each not in gone[pattern]] for pattern in gone}
    return image.with_entries(kept) if kept else image


# The file.


def _entries_of(image: AclImage) -> dict[str, str]:
    """Return the lines of the file. The same entry can be allowed and denied, and then has both in its line."""
    permissions: dict[str, list[str]] = {}
    for (kind, name, pattern_type), (principal, host, operation, permission) in image:
        parts = (kind.name.lower(), pattern_type.name.lower(), quoted(name), quoted(principal), quoted(host))
        line = "/".join((*parts, operation.name.lower()))
        permissions.setdefault(line, []).append(permission.name.lower())
    return {line: ",".join(sorted(each)) for line, each in permissions.items()}


def _image_of(entries: Mapping[str, str], path: str) -> AclImage:
    """Return the image that lines of the file describe.

    Raises:
        DamagedFile: a line is not an ACL.
    """
    found: dict[ResourcePattern, list[AccessControlEntry]] = {}
    for line, permissions in entries.items():
        try:
            kind, pattern_type, name, principal, host, operation = line.split("/")
            pattern = ResourcePattern(ResourceType[kind.upper()], unquoted(name), PatternType[pattern_type.upper()])
            for permission in permissions.split(","):
                entry = AccessControlEntry(
                    unquoted(principal),
                    unquoted(host),
                    AclOperation[operation.upper()],
                    AclPermissionType[permission.upper()],
                )
                if _refusal(AclBinding(pattern, entry)) is not None:
                    raise ValueError
                found.setdefault(pattern, []).append(entry)
        except (KeyError, ValueError):
            raise DamagedFile(path, f"the entry {f'{line}={permissions}'!r:.100} is not an ACL") from None
    return AclImage({pattern: tuple(each) for pattern, each in found.items()})
