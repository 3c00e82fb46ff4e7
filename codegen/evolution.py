"""Say what changed between two states of the schemas, and whether old and new programs still understand each other.

Two peers agree on a version, so each version that both states have must be the same bytes in both: the layouts are
compared version by version. What only one state has (a new version, a dropped one) cannot break anybody who negotiates.

Source: KIP-35 and KIP-482; Apache Kafka checks its own definitions by the same idea.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from kafkawire.codegen.layout import Entry, layout
from kafkawire.codegen.spec import NO_DEFAULT, ApiFile, MessageSpec, SchemaFile
from kafkawire.codegen.versions import Versions

__all__ = ["Change", "Verdict", "compare", "steps"]


class Verdict(StrEnum):
    """What a change means for programs that speak the old state."""

    #: Nothing: they go on as before.
    COMPATIBLE = "compatible"
    #: The bytes are as before, but somebody should know.
    NOTE = "note"
    #: They would misread the bytes, or send bytes that are misread.
    BREAKS = "breaks the wire"


@dataclass(frozen=True, slots=True)
class Change:
    """One change.

    Attributes:
        message: its name, as `FetchRequest`.
        versions: the versions that it concerns.
        field: the path of the field, as `topics.partitions.index`; empty for the message itself.
        what: the change in words.
        verdict: what it means.
    """

    message: str
    versions: Versions
    field: str
    what: str
    verdict: Verdict

    def __str__(self) -> str:
        where = f" {self.field}" if self.field else ""
        return f"{self.message} {self.versions}{where}: {self.what} ({self.verdict})"


#: A change without its message and versions: field, words, verdict.
_Found = tuple[str, str, Verdict]


def compare(old: Iterable[SchemaFile], new: Iterable[SchemaFile]) -> list[Change]:
    """Return every change from `old` to `new`, by message and version."""
    old, new = tuple(old), tuple(new)
    before, after = _messages(old), _messages(new)
    unstable = _unstable(old)
    changes: list[Change] = []
    for name in sorted(before.keys() | after.keys()):
        match before.get(name), after.get(name):
            case None, MessageSpec() as message if message.versions:
                changes.append(Change(name, message.versions, "", "new message", Verdict.COMPATIBLE))
            case MessageSpec() as message, None if message.versions:
                changes.append(Change(name, message.versions, "", "message removed", Verdict.NOTE))
            case MessageSpec() as left, MessageSpec() as right:
                changes += _message_changes(left, right, unstable.get(name))
    return changes + _header_changes(old, new)


def steps(message: MessageSpec, version: int) -> Iterator[tuple[str, str]]:
    """Yield what `version` changed against the one before it, as field and words; nothing for the first version."""
    if version - 1 not in message.versions:
        return
    if (version in message.flexible) != (version - 1 in message.flexible):
        yield "", "becomes flexible"
    for field, what, _verdict in _layout_changes(layout(message, version - 1), layout(message, version), ""):
        if not what.startswith("length became"):
            yield field, what


def _messages(files: Iterable[SchemaFile]) -> dict[str, MessageSpec]:
    return {message.name: message for file in files for message in file.messages}


def _unstable(files: Iterable[SchemaFile]) -> dict[str, int]:
    """Return the version of each message that its release has not promised to keep."""
    return {
        message.name: file.request.versions.last
        for file in files
        if isinstance(file, ApiFile) and file.request.unstable
        for message in file.messages
    }


def _header_changes(old: Iterable[SchemaFile], new: Iterable[SchemaFile]) -> list[Change]:
    before = {file.name: file for file in old if isinstance(file, ApiFile)}
    return [
        Change(file.response.name, file.response.versions, "", "version of its header changed", Verdict.BREAKS)
        for file in new
        if isinstance(file, ApiFile)
        and file.name in before
        and file.response_header != before[file.name].response_header
    ]


def _message_changes(old: MessageSpec, new: MessageSpec, unstable: int | None) -> Iterator[Change]:
    """Yield the changes of one message.

    Args:
        old, new: its two states.
        unstable: the version that was free to change, None if there was none.
    """
    name = old.name
    if (old.kind, old.key) != (new.kind, new.key):
        what = f"{old.kind} {old.key} became {new.kind} {new.key}"
        yield Change(name, old.versions, "", what, Verdict.BREAKS)
    found: dict[_Found, list[int]] = defaultdict(list)
    for version in sorted({*old.versions, *new.versions}):
        for field, what, verdict in _version_changes(old, new, version):
            if verdict is Verdict.BREAKS and version == unstable:
                what, verdict = f"{what}; the version was unstable", Verdict.NOTE
            found[field, what, verdict].append(version)
    for (field, what, verdict), versions in found.items():
        yield from (Change(name, run, field, what, verdict) for run in _runs(versions))
    for listeners, what, verdict in (
        (set(new.listeners) - set(old.listeners), "accepted by", Verdict.COMPATIBLE),
        (set(old.listeners) - set(new.listeners), "no longer accepted by", Verdict.NOTE),
    ):
        if listeners:
            yield Change(name, new.versions, "", f"{what} {' and '.join(sorted(listeners))}", verdict)


def _runs(versions: list[int]) -> Iterator[Versions]:
    """Yield ascending versions as ranges."""
    first = last = versions[0]
    for version in versions[1:]:
        if version != last + 1:
            yield Versions(first, last)
            first = version
        last = version
    yield Versions(first, last)


def _version_changes(old: MessageSpec, new: MessageSpec, version: int) -> Iterator[_Found]:
    if version not in new.versions:
        if version > new.versions.last >= 0:
            yield "", "the newest version was taken back", Verdict.BREAKS
        else:
            yield "", "version dropped", Verdict.NOTE
        return
    if version not in old.versions:
        yield "", "new version", Verdict.COMPATIBLE
        for field, what in steps(new, version):
            yield field, what, Verdict.COMPATIBLE
        return
    if (version in old.flexible) != (version in new.flexible):
        form = "flexible" if version in new.flexible else "classic"
        yield "", f"encoding became {form}", Verdict.BREAKS
    if (version in old.deprecated) != (version in new.deprecated):
        yield "", "deprecated" if version in new.deprecated else "no longer deprecated", Verdict.NOTE
    yield from _layout_changes(layout(old, version), layout(new, version), "")


def _layout_changes(old: tuple[Entry, ...], new: tuple[Entry, ...], path: str) -> Iterator[_Found]:
    """Compare one structure in one version."""
    before = {entry.field.name: entry for entry in old}
    after = {entry.field.name: entry for entry in new}
    renamed = dict(_renamed(before, after))
    for name, entry in before.items():
        other = after.get(renamed.get(name, name))
        where = f"{path}{name}"
        if other is None:
            yield where, "removed", Verdict.BREAKS if entry.tag is None else Verdict.NOTE
            continue
        if name in renamed:
            yield where, f"renamed to {renamed[name]}", Verdict.NOTE
        yield from _entry_changes(entry, other, where)
    for name, entry in after.items():
        if name not in before and name not in renamed.values():
            if entry.tag is None:
                yield f"{path}{name}", f"added, {entry.type}", Verdict.BREAKS
            else:
                yield f"{path}{name}", f"added, {entry.type}, tag {entry.tag}", Verdict.COMPATIBLE
    stayed = [renamed.get(name, name) for name, entry in before.items() if entry.tag is None]
    stayed = [name for name in stayed if name in after and after[name].tag is None]
    order = [name for name in after if name in stayed]
    if order != stayed:
        moved = next(name for name, other in zip(stayed, order, strict=True) if name != other)
        yield f"{path}{moved}", "moved", Verdict.BREAKS


def _renamed(before: dict[str, Entry], after: dict[str, Entry]) -> Iterator[tuple[str, str]]:
    """Yield old and new name of fields that kept their place and form."""
    if len(before) == len(after):
        for (old, entry), (new, other) in zip(before.items(), after.items(), strict=True):
            if old not in after and new not in before and not any(_entry_changes(entry, other, "")):
                yield old, new


def _entry_changes(old: Entry, new: Entry, where: str) -> Iterator[_Found]:
    """Compare one field that is in both."""
    if old.tag != new.tag:
        yield where, f"{_place(old)} became {_place(new)}", Verdict.BREAKS
    same_form = old.field.array == new.field.array and (
        (old.is_structure and new.is_structure) or old.field.type == new.field.type
    )
    if not same_form:
        yield where, f"type {old.type} became {new.type}", Verdict.BREAKS
        return
    if old.nullable != new.nullable:
        yield where, "may now be null" if new.nullable else "may no longer be null", Verdict.BREAKS
    if old.compact != new.compact:
        yield where, f"length became {'compact' if new.compact else 'classic'}", Verdict.BREAKS
    yield from _declared_changes(old, new, where)
    yield from _layout_changes(old.entries, new.entries, f"{where}.")


def _place(entry: Entry) -> str:
    return "an ordinary field" if entry.tag is None else f"tag {entry.tag}"


def _declared_changes(old: Entry, new: Entry, where: str) -> Iterator[_Found]:
    """Compare what no byte shows: defaults and flags."""
    if _default(old) != _default(new):
        # An absent tagged field means its default, so that the default is part of the encoding.
        verdict = Verdict.NOTE if new.tag is None else Verdict.BREAKS
        yield where, f"default {_default(old)} became {_default(new)}", verdict
    if old.field.ignorable != new.field.ignorable:
        if new.field.ignorable:
            yield where, "became ignorable", Verdict.COMPATIBLE
        else:
            yield where, "no longer ignorable: writing an older version may fail", Verdict.NOTE
    for attribute in ("map_key", "zero_copy", "entity"):
        before, after = getattr(old.field, attribute), getattr(new.field, attribute)
        if before != after:
            yield where, f"{attribute} {before or 'none'} became {after or 'none'}", Verdict.NOTE


def _default(entry: Entry) -> str:
    default = entry.field.default
    return "that of the type" if default is NO_DEFAULT else "null" if default is None else repr(default)
