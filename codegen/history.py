"""Join two states of a message: the definition in one release, and versions that only an older release had.

One definition then describes all versions: each field keeps its ranges in the versions of both states. The result is
compared with both states, version by version, so a field that cannot be joined causes an error, never a wrong byte.

Source: KIP-896 removed versions in 4.0; the definitions in older jars still have them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from kafkawire.codegen.change import Verdict
from kafkawire.codegen.evolution import layout_changes
from kafkawire.codegen.layout import layout
from kafkawire.codegen.located import SchemaError
from kafkawire.codegen.spec import (
    ApiFile,
    FieldSpec,
    MessageSpec,
    RecordFile,
    Removal,
    SchemaFile,
    SingleFile,
    StructSpec,
)
from kafkawire.codegen.versions import NONE, Versions

__all__ = ["RemovedIn", "file_as_history", "file_with_history", "with_history"]

_Fields = tuple[FieldSpec, ...]

#: A function that returns the release in which a version of a message was removed, given the name and the version.
RemovedIn = Callable[[str, int], str]


def file_with_history(new: SchemaFile, old: SchemaFile, removed_in: RemovedIn) -> SchemaFile:
    """Return `new` with the versions and messages that only `old`, an older state of the same file, has.

    Raises:
        SchemaError: as for `with_history`.
    """
    before = {message.name: message for message in old.messages}

    def joined(message: MessageSpec) -> MessageSpec:
        older = before.get(message.name)
        return message if older is None else with_history(message, older, removed_in)

    match new, old:
        case ApiFile(), ApiFile():
            return replace(
                new,
                request=joined(new.request),
                response=joined(new.response),
                first_request_header=_either(new.first_request_header, old.first_request_header),
            )
        case RecordFile(), RecordFile():
            return replace(new, key=joined(new.key), value=joined(new.value))
        case SingleFile(), SingleFile():
            return SingleFile(tuple(map(joined, new.messages)))
    raise _error(new.messages[0], "the message's kind has changed")


def _either(one: int | None, other: int | None) -> int | None:
    return other if one is None else one


def file_as_history(old: SchemaFile, removed_in: RemovedIn) -> SchemaFile:
    """Return a file whose messages are all marked as removed."""

    def gone(message: MessageSpec) -> MessageSpec:
        return _as_history(message, message, removed_in, listeners=())

    match old:
        case ApiFile():
            return replace(old, request=gone(old.request), response=gone(old.response))
        case RecordFile():
            return replace(old, key=gone(old.key), value=gone(old.value))
        case SingleFile():
            return SingleFile(tuple(map(gone, old.messages)))


def with_history(new: MessageSpec, old: MessageSpec, removed_in: RemovedIn) -> MessageSpec:
    """Return `new` plus the versions that only `old` has, marked as removed.

    Args:
        new: the current state; versions that it already knows stay unchanged.
        old: an older state of the same message.
        removed_in: called for each version that only `old` has, to learn which release removed it.

    Raises:
        SchemaError: versions between the two states are missing, or one definition cannot express both.
    """
    if not new.known:
        return _as_history(old, new, removed_in, new.listeners)
    kept = old.known & Versions(0, new.known.first - 1)
    if not kept:
        return new
    if kept.last + 1 != new.known.first:
        raise _error(new, f"the versions between {kept} and {new.known} are missing")
    joined = _Join(old, new, kept).message(_removals(old, kept, removed_in))
    _check(joined, old, kept)
    _check(joined, new, new.known)
    return joined


def _as_history(old: MessageSpec, new: MessageSpec, removed_in: RemovedIn, listeners: tuple[str, ...]) -> MessageSpec:
    """Return `old` without current versions and with the key that the message has now."""
    removed = _removals(old, old.known, removed_in)
    flexible = old.flexible if old.flexible & old.known else NONE
    return replace(
        old,
        key=new.key,
        versions=NONE,
        removed=removed,
        flexible=flexible,
        deprecated=NONE,
        unstable=False,
        listeners=listeners,
    )


def _removals(message: MessageSpec, versions: Versions, removed_in: RemovedIn) -> tuple[Removal, ...]:
    """Return which release removed which of the versions, keeping the entries that the message already lists."""
    releases = ((message.removed_in(version) or removed_in(message.name, version), version) for version in versions)
    runs = ((release, [version for _release, version in run]) for release, run in groupby(releases, itemgetter(0)))
    return tuple(Removal(release, Versions(run[0], run[-1])) for release, run in runs)


def _error(message: MessageSpec, reason: str) -> SchemaError:
    return SchemaError(Path(f"{message.name}.json"), message.line, f"{message.name}: {reason}")


def _check(joined: MessageSpec, state: MessageSpec, versions: Versions) -> None:
    """Check that the joined message encodes the versions of one state to the same bytes as that state."""
    for version in versions:
        if (version in joined.flexible) != (version in state.flexible):
            raise _error(joined, f"version {version}: the encoding of lengths has changed")
        for place, what, verdict in layout_changes(layout(state, version), layout(joined, version)):
            if verdict is Verdict.BREAKS:
                reason = f"version {version} cannot be combined with its history (--forget leaves it out)"
                raise _error(joined, f"{reason}: {place}: {what}")


@dataclass(frozen=True, slots=True)
class _Scope:
    """The versions in which one structure exists, in either state."""

    old: Versions
    new: Versions

    def inside(self, old: Versions, new: Versions) -> _Scope:
        return _Scope(self.old & old, self.new & new)

    def joined(self, old: Versions, new: Versions) -> Versions | None:
        """Return the range that equals `old` in the old versions and `new` in the new ones; None if there is none."""
        wanted = (old & self.old, new & self.new)
        for candidate in (new, old):
            if (candidate & self.old, candidate & self.new) == wanted:
                return candidate
        before, after = wanted
        if not after:
            return before
        if before and before.last + 1 != after.first:
            return None
        return Versions(before.first if before else after.first, max(new.last, after.last))


@dataclass(slots=True)
class _Join:
    """One message in two states, its structures, and what was found out about shared structures."""

    old: MessageSpec
    new: MessageSpec
    kept: Versions
    #: The old fields of each shared structure of the new state.
    shared: dict[str, _Fields] = field(default_factory=dict)

    def message(self, removed: tuple[Removal, ...]) -> MessageSpec:
        """Return the joined message."""
        scope = _Scope(self.kept, self.new.known)
        flexible = self._range(scope, self.old.flexible, self.new.flexible, "flexible")
        fields = self._fields(scope, self.old.fields, self.new.fields, "")
        structs = tuple(self._struct(scope, struct) for struct in self.new.structs)
        present = {struct.name for struct in self.new.structs}
        used = _types(fields)
        structs += tuple(one for one in self.old.structs if one.name in used and one.name not in present)
        return replace(
            self.new, removed=(*removed, *self.new.removed), flexible=flexible, fields=fields, structs=structs
        )

    def _range(self, scope: _Scope, old: Versions, new: Versions, what: str) -> Versions:
        found = scope.joined(old, new)
        if found is None:
            raise _error(self.new, f"{what}: {old} (removed versions) and {new} do not form one range")
        return found

    def _fields(self, scope: _Scope, old: _Fields, new: _Fields, prefix: str) -> _Fields:
        """Return the fields of a structure: those of the new state, with every other field after its predecessor."""
        before = {item.name: item for item in old}
        result = [self._field(scope, before.get(item.name), item, prefix) for item in new]
        for number, item in enumerate(old):
            if any(item.name == other.name for other in new) or not item.versions & scope.old:
                continue
            earlier = {other.name for other in old[:number]}
            place = max((at + 1 for at, other in enumerate(result) if other.name in earlier), default=0)
            result.insert(place, replace(item, versions=self._range(scope, item.versions, NONE, prefix + item.name)))
        return tuple(result)

    def _field(self, scope: _Scope, old: FieldSpec | None, new: FieldSpec, prefix: str) -> FieldSpec:
        place = prefix + new.name
        if old is None:
            return replace(new, versions=self._range(scope, NONE, new.versions, place))
        if old.tag is not None and new.tag is not None and old.tag != new.tag:
            raise _error(self.new, f"{place}: tag {old.tag} became {new.tag}")
        inner = scope.inside(old.versions, new.versions)
        only_removed_lack_it = scope.new <= new.versions and not scope.old <= old.versions
        versions = self._range(scope, old.versions, new.versions, place)
        return replace(
            new,
            versions=versions,
            nullable=self._range(inner, old.nullable, new.nullable, f"{place}: nullable"),
            tag=old.tag if new.tag is None else new.tag,
            tagged=self._range(inner, old.tagged, new.tagged, f"{place}: tagged") & versions,
            ignorable=old.ignorable if only_removed_lack_it else new.ignorable,
            fields=self._inner(inner, old, new, place),
        )

    def _inner(self, scope: _Scope, old: FieldSpec, new: FieldSpec, place: str) -> _Fields | None:
        """Return the fields of an inline structure; record those of a shared one in `self.shared`."""
        structures = {name: fields for name, fields, _about in self.old.all_structs()}
        if old.type not in structures:
            return new.fields
        if new.fields is None:
            self.shared[new.type] = structures[old.type]
            return None
        return self._fields(scope, structures[old.type], new.fields, f"{place}.")

    def _struct(self, scope: _Scope, struct: StructSpec) -> StructSpec:
        """Return a shared structure; the versions in which it is used depend only on the fields that use it."""
        versions = Versions(min(scope.old.first, struct.versions.first), struct.versions.last)
        inner = _Scope(scope.old, scope.new & struct.versions)
        fields = self._fields(inner, self.shared.get(struct.name, struct.fields), struct.fields, f"{struct.name}.")
        return replace(struct, versions=versions if struct.name in self.shared else struct.versions, fields=fields)


def _types(fields: _Fields) -> set[str]:
    return {item.type for item in fields}.union(*(_types(item.fields or ()) for item in fields))
