"""Report the changes between two states of the schemas, and whether old and new programs can still communicate.

Two peers agree on a version, so every version in both states must be encoded to the same bytes; the layouts are
compared version by version. A version in only one state (new or dropped) does not break a peer that negotiates.

Source: KIP-35 and KIP-482; Apache Kafka checks its own definitions in the same way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from kafkawire.codegen.change import Change, Verdict
from kafkawire.codegen.evolution_tables import compare_constants, compare_enumerations, compare_errors, compare_formats
from kafkawire.codegen.layout import Entry, layout
from kafkawire.codegen.load import headers_of
from kafkawire.codegen.spec import NO_DEFAULT, ApiFile, MessageSpec, topic_of
from kafkawire.codegen.state import State
from kafkawire.codegen.versions import Versions

__all__ = ["compare", "field_changes", "layout_changes"]

#: The change to every string, array and structure when a message becomes flexible or stops being so, keyed by
#: `compact`.
_LENGTH_CHANGES = {True: "length became compact", False: "length became classic"}

#: A change without its message and versions: field, description, verdict.
_Found = tuple[str, str, Verdict]


def compare(old: State, new: State) -> list[Change]:
    """Return every change from `old` to `new`: first messages, by name and version, then subjects without versions.

    Tables and record formats are compared if both states have them.
    """
    before, after = _messages(old), _messages(new)
    unstable = _unstable(old)
    headers_before, headers_after = _headers(old), _headers(new)
    changes: list[Change] = []
    for name in sorted(before.keys() | after.keys()):
        match before.get(name), after.get(name):
            case None, MessageSpec() as message if message.versions:
                changes.append(Change(name, "", "new message", Verdict.COMPATIBLE, message.versions))
            case MessageSpec() as message, None if message.versions:
                changes.append(Change(name, "", "message removed", Verdict.NOTE, message.versions))
            case MessageSpec() as left, MessageSpec() as right:
                headers = headers_before.get(name, {}), headers_after.get(name, {})
                changes += _message_changes(left, right, unstable.get(name), headers)
    changes += _topic_changes(old, new)
    if old.formats is not None and new.formats is not None:
        changes += compare_formats(old.formats, new.formats)
    if old.errors is not None and new.errors is not None:
        changes += compare_errors(old.errors, new.errors)
    if old.enumerations is not None and new.enumerations is not None:
        changes += compare_enumerations(old.enumerations, new.enumerations)
    if old.constants is not None and new.constants is not None:
        changes += compare_constants(old.constants, new.constants)
    return changes


def field_changes(message: MessageSpec, version: int) -> Iterator[tuple[str, str]]:
    """Yield the changes in `version` since the previous one, as field and description; none for the first version."""
    if version - 1 not in message.known:
        return
    if (version in message.flexible) != (version - 1 in message.flexible):
        yield "", "becomes flexible"
    for field, what, _verdict in layout_changes(layout(message, version - 1), layout(message, version)):
        if what not in _LENGTH_CHANGES.values():
            yield field, what


def _messages(state: State) -> dict[str, MessageSpec]:
    return {message.name: message for file in state.files.values() for message in file.messages}


def _unstable(state: State) -> dict[str, int]:
    """Return, for each message, the version that its release has not promised to keep."""
    return {
        message.name: file.request.versions.last
        for file in state.files.values()
        if isinstance(file, ApiFile) and file.request.unstable
        for message in file.messages
    }


def _topics(state: State) -> dict[str, str]:
    """Return the topic of each message that a topic's records begin with: their key, or the framed message."""
    return {
        message.name: topic_of(path, file)
        for path, file in state.files.items()
        for message in file.messages
        if message.kind in ("coordinator-key", "metadata")
    }


def _topic_changes(old: State, new: State) -> Iterator[Change]:
    before, after = _topics(old), _topics(new)
    for name, topic in after.items():
        if name in before and before[name] != topic:
            yield Change(name, "", f"topic {before[name]} became {topic}", Verdict.NOTE)


def _headers(state: State) -> dict[str, Mapping[int, int]]:
    """Return the header versions of each request and response, keyed by message version."""
    headers = headers_of(state.files.values())
    return {
        message.name: {version: file.header_version(message, version, headers) for version in message.known}
        for file in state.files.values()
        if isinstance(file, ApiFile)
        for message in file.messages
    }


def _message_changes(
    old: MessageSpec, new: MessageSpec, unstable: int | None, headers: tuple[Mapping[int, int], Mapping[int, int]]
) -> Iterator[Change]:
    """Yield the changes to one message.

    Args:
        old, new: the message in the two states.
        unstable: the version that was still allowed to change; None if there was none.
        headers: the header versions in the two states, keyed by message version; empty for messages without a header.
    """
    name = old.name
    if (old.kind, old.key) != (new.kind, new.key):
        what = f"{old.kind} {old.key} became {new.kind} {new.key}"
        yield Change(name, "", what, Verdict.BREAKS, old.versions)
    yield from _stability_changes(old, new)
    found: dict[_Found, list[int]] = defaultdict(list)
    for version in sorted({*old.known, *new.known}):
        for found_here in (*_header_changes(*headers, version), *_version_changes(old, new, version)):
            field, what, verdict = found_here
            if verdict is Verdict.BREAKS and version == unstable:
                what, verdict = f"{what}; the version was unstable", Verdict.NOTE
            found[field, what, verdict].append(version)
    for (field, what, verdict), versions in found.items():
        yield from (Change(name, field, what, verdict, run) for run in _runs(versions))
    for listeners, what, verdict in (
        (set(new.listeners) - set(old.listeners), "accepted by", Verdict.COMPATIBLE),
        (set(old.listeners) - set(new.listeners), "no longer accepted by", Verdict.NOTE),
    ):
        if listeners:
            yield Change(name, "", f"{what} {' and '.join(sorted(listeners))}", verdict, new.versions)


def _header_changes(old: Mapping[int, int], new: Mapping[int, int], version: int) -> Iterator[_Found]:
    """Compare the header version of one message version, regardless of which rule determines it."""
    if version in old and version in new and old[version] != new[version]:
        yield "", f"header {old[version]} became {new[version]}", Verdict.BREAKS


def _stability_changes(old: MessageSpec, new: MessageSpec) -> Iterator[Change]:
    """Compare the unstable versions, which may still change."""
    before, after = (message.versions.last if message.unstable else None for message in (old, new))
    if before is not None and before != after and before in new.versions:
        yield Change(old.name, "", "became stable", Verdict.COMPATIBLE, Versions(before, before))
    if after is not None and before != after:
        yield Change(old.name, "", "is unstable and may still change", Verdict.NOTE, Versions(after, after))


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
    if version in old.versions and version not in new.versions:
        if version > new.known.last >= 0:
            yield "", "the newest version was withdrawn", Verdict.BREAKS
        else:
            yield "", "version dropped", Verdict.NOTE
    if version not in new.known:
        if version not in old.versions:
            yield "", "the removed version is no longer known", Verdict.NOTE
        return
    if version not in old.known and version not in new.versions:
        yield "", f"known, removed in {new.removed_in(version)}", Verdict.COMPATIBLE
        return
    if version not in old.known:
        yield "", "new version", Verdict.COMPATIBLE
        for field, what in field_changes(new, version):
            yield field, what, Verdict.COMPATIBLE
        return
    if (version in old.flexible) != (version in new.flexible):
        encoding = "flexible" if version in new.flexible else "classic"
        yield "", f"encoding became {encoding}", Verdict.BREAKS
    if (version in old.deprecated) != (version in new.deprecated):
        yield "", "deprecated" if version in new.deprecated else "no longer deprecated", Verdict.NOTE
    yield from layout_changes(layout(old, version), layout(new, version))


def layout_changes(old: tuple[Entry, ...], new: tuple[Entry, ...], path: str = "") -> Iterator[_Found]:
    """Compare one structure in one version; yield field, description and verdict of each change.

    Args:
        old, new: its two states.
        path: prefix of the field names.
    """
    before = {entry.field.name: entry for entry in old}
    after = {entry.field.name: entry for entry in new}
    renamed = _renamed(before, after, path)
    new_names = {name for name, _changes in renamed.values()}
    for name, entry in before.items():
        where = f"{path}{name}"
        if name in renamed:
            new_name, changes = renamed[name]
            yield where, f"renamed to {new_name}", Verdict.NOTE
            yield from changes
        elif name in after:
            yield from _entry_changes(entry, after[name], where)
        else:
            yield where, "removed", Verdict.BREAKS if entry.tag is None else Verdict.NOTE
    for name, entry in after.items():
        if name not in before and name not in new_names:
            if entry.tag is None:
                yield f"{path}{name}", f"added, {entry.type}", Verdict.BREAKS
            else:
                yield f"{path}{name}", f"added, {entry.type}, tag {entry.tag}", Verdict.COMPATIBLE
    names = (renamed.get(name, (name,))[0] for name, entry in before.items() if entry.tag is None)
    stayed = {name: None for name in names if name in after and after[name].tag is None}
    order = [name for name in after if name in stayed]
    if order != list(stayed):
        moved = next(name for name, other in zip(stayed, order, strict=True) if name != other)
        yield f"{path}{moved}", "moved", Verdict.BREAKS


def _renamed(before: dict[str, Entry], after: dict[str, Entry], path: str) -> dict[str, tuple[str, list[_Found]]]:
    """Return, keyed by old name, the new name and other changes of each field that kept its position and bytes."""
    found = {}
    if len(before) == len(after):
        for (old, entry), (new, other) in zip(before.items(), after.items(), strict=True):
            if old not in after and new not in before:
                changes = list(_entry_changes(entry, other, f"{path}{old}"))
                if all(verdict is not Verdict.BREAKS for _field, _what, verdict in changes):
                    found[old] = new, changes
    return found


def _entry_changes(old: Entry, new: Entry, where: str) -> Iterator[_Found]:
    """Compare one field that both states have."""
    if old.tag != new.tag:
        yield where, f"{_place(old)} became {_place(new)}", Verdict.BREAKS
    same_type = old.field.array == new.field.array and (
        (old.is_structure and new.is_structure) or old.field.type == new.field.type
    )
    if not same_type:
        yield where, f"type {old.type} became {new.type}", Verdict.BREAKS
        return
    if old.nullable != new.nullable:
        yield where, "may now be null" if new.nullable else "may no longer be null", Verdict.BREAKS
    if old.compact != new.compact:
        yield where, _LENGTH_CHANGES[new.compact], Verdict.BREAKS
    yield from _declared_changes(old, new, where)
    yield from layout_changes(old.entries, new.entries, f"{where}.")


def _place(entry: Entry) -> str:
    return "an ordinary field" if entry.tag is None else f"tag {entry.tag}"


def _declared_changes(old: Entry, new: Entry, where: str) -> Iterator[_Found]:
    """Compare the properties that are not encoded: defaults and flags."""
    if _default(old) != _default(new):
        # An absent tagged field has its default value, so the default is part of the encoding.
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
