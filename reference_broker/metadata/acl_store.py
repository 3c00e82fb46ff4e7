"""The ACLs of a cluster: an immutable image, and the interface of what stores them.

    CreateAcls, DeleteAcls ──▶ AclStore ──image──▶ authorizer

A standalone broker keeps its ACLs in a file (`local_acl_store.py`), and a cluster keeps them in its registry
(`cluster/registry_acls.py`).

Source: `AclCache`, `AclMutator` in Apache Kafka 4.3; `AclAuthorizer` in 3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, runtime_checkable

from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.acls import AccessControlEntry, AclBinding, AclBindingFilter, ResourcePattern
from kafkawire.sdk.protocol.tables.enums import PatternType, ResourceType

__all__ = ["NO_ACLS", "AclImage", "AclStore", "CreateDone", "DeleteDone", "DeletedAcl", "DeletedAcls"]


class AclImage:
    """All ACLs at one time. Immutable: a change returns another image, which shares what has not changed.

    Args:
        entries: the entries of each pattern, none of which is empty.

    Attributes:
        entries: see above.
    """

    __slots__ = ("_lengths", "entries")

    def __init__(self, entries: Mapping[ResourcePattern, tuple[AccessControlEntry, ...]]) -> None:
        self.entries = entries
        lengths: dict[ResourceType, set[int]] = {}
        for kind, name, pattern_type in entries:
            if pattern_type == PatternType.PREFIXED:
                lengths.setdefault(kind, set()).add(len(name))
        #: The lengths of the prefixes of each resource type: each takes one look-up, however many prefixes there are.
        self._lengths = {kind: tuple(sorted(each)) for kind, each in lengths.items()}

    def __len__(self) -> int:
        return sum(map(len, self.entries.values()))

    def __iter__(self) -> Iterator[AclBinding]:
        for pattern, entries in self.entries.items():
            for entry in entries:
                yield AclBinding(pattern, entry)

    def __contains__(self, binding: AclBinding) -> bool:
        return binding.entry in self.entries.get(binding.pattern, ())

    def with_entries(self, changed: Mapping[ResourcePattern, Collection[AccessControlEntry]]) -> AclImage:
        """Return an image in which some patterns have other entries; a pattern without entries is left out."""
        entries = dict(self.entries)
        for pattern, new in changed.items():
            if new:
                entries[pattern] = tuple(new)
            else:
                entries.pop(pattern, None)
        return AclImage(entries)

    def prefixes(self, resource_type: ResourceType, name: str) -> Iterator[ResourcePattern]:
        """Yield the PREFIXED patterns that apply to a resource and have entries."""
        for length in self._lengths.get(resource_type, ()):
            if length > len(name):
                return
            pattern = ResourcePattern(resource_type, name[:length], PatternType.PREFIXED)
            if pattern in self.entries:
                yield pattern


#: The image of a cluster without ACLs.
NO_ACLS: Final = AclImage({})


class DeletedAcl(NamedTuple):
    """An ACL that matched a filter.

    Attributes:
        binding: the ACL.
        error: why it could not be deleted; None if it has been deleted.
    """

    binding: AclBinding
    error: BrokerError | None = None


#: What a filter has deleted, or why it has deleted nothing.
DeletedAcls = Sequence[DeletedAcl] | BrokerError

#: Called with the result of each ACL, in order: None once it is durable and in the image, or an error.
CreateDone = Callable[[Sequence[BrokerError | None]], None]

#: Called with the result of each filter, in order.
DeleteDone = Callable[[Sequence[DeletedAcls]], None]


@runtime_checkable  # tests check a broker's parts against the names that handlers use
class AclStore(Protocol):
    """Stores ACLs.

    Attributes:
        image: the current ACLs; another program may change those in a registry.
        is_registry: whether this is a cluster's registry; if so, refusals and their texts are those of Apache Kafka 3.9
            with ZooKeeper.
    """

    image: AclImage
    is_registry: bool

    def create(self, bindings: Sequence[AclBinding], done: CreateDone) -> None:
        """Add ACLs; those that exist already stay as they are.

        Args:
            bindings: the ACLs; each is checked, and refused alone.
            done: see `CreateDone`.
        """

    def delete(self, filters: Sequence[AclBindingFilter], done: DeleteDone) -> None:
        """Delete ACLs.

        Args:
            filters: each selects ACLs.
            done: see `DeleteDone`.
        """
