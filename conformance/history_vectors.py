"""Check the codecs against the vectors of an older release, in a folder next to those of the newest release.

Such a folder contains only the vectors that differ from those of the newest release. The generator just counts the
others, whose values and bytes are the same in both releases. Today's codecs are checked against everything in the older
release, including removed versions.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kafkawire.conformance import message_vectors
from kafkawire.sdk.protocol.layout import FieldLayout, Layout, layout
from kafkawire.sdk.protocol.messages import MODULES
from kafkawire.sdk.protocol.programs import message_class
from kafkawire.sdk.protocol.versions import VersionRange

__all__ = [
    "CHANGED_IN_PLACE",
    "MESSAGE_FILES",
    "VECTORS",
    "check_history_message",
    "check_history_parity",
    "check_history_write_rule",
    "check_newest_versions",
    "check_versions",
    "with_new_names",
]

Case = tuple[str, str | None]
Vector = dict[str, Any]

#: The vectors that ship with the package.
VECTORS = Path(__file__).parent / "vectors"

#: The files with a vector for each version of each message.
MESSAGE_FILES = tuple(
    f"{name}.jsonl.gz" for name in ("requests", "responses", "headers", "data", "coordinator", "metadata")
)

#: Message versions that Kafka changed without a new number while share groups were in early access. A codec is
#: identified by message and version, so it uses the current form.
CHANGED_IN_PLACE = {
    ("ReadShareGroupStateSummaryResponse", 0): "4.1 added leader_epoch",
    ("ShareGroupMetadataValue", 0): "4.1 added metadata_hash",
}

#: Fields that a later release renamed, keyed by JSON name; the bytes are the same.
_RENAMED = {
    "VoteRequest": {
        "candidateEpoch": "replicaEpoch",
        "candidateId": "replicaId",
        "candidateDirectoryId": "replicaDirectoryId",
    }
}

#: A field on the wire: path, type, whether it may be null, and tag; fields inside a tagged field are considered tagged
#: too.
_Wire = tuple[str, str, bool, int | None]


def check_history_message(vector: Vector, engine: str) -> str | None:
    """Decode and encode a vector of an older release; see `check_message_vector`."""
    return message_vectors.check_message_vector(with_new_names(vector), engine)


def check_history_write_rule(vector: Vector, engine: str) -> str | None:
    """Encode values that a version of an older release cannot carry; see `check_write_rule_vector`."""
    return message_vectors.check_write_rule_vector(with_new_names(vector), engine)


def with_new_names(vector: Vector) -> Vector:
    """Return a vector of an older release with today's field names."""
    names = _RENAMED.get(vector["name"], {})
    if not names:
        return vector
    return vector | {"value": _renamed(vector["value"], names)}


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    match value:
        case dict():
            return {names.get(key, key): _renamed(item, names) for key, item in value.items()}
        case list():
            return [_renamed(item, names) for item in value]
        case _:
            return value


def check_history_parity(table: list[dict[str, Any]]) -> Iterator[Case]:
    """Compare the fields of each message-version in an older release; yield (message-version, difference or None)."""
    for entry in table:
        for version in _versions(entry):
            yield f"{entry['name']} {version}", _compare(entry, version)


def _compare(entry: dict[str, Any], version: int) -> str | None:
    name = entry["name"]
    if name not in MODULES:
        return "the message does not exist"
    schema = message_class(name).SCHEMA
    if version not in schema.known_versions:
        return f"the known versions are {schema.known_versions}"
    found = layout(message_class(name), version)
    if found.flexible != (version in _range(entry.get("flexible_versions"))):
        return f"the version is {'flexible' if found.flexible else 'not flexible'}"
    theirs = list(_expected(entry["fields"], version, _RENAMED.get(name, {})))
    # A later release may add tagged fields to a version; peers skip fields that they do not know.
    known = {wire[0] for wire in theirs}
    ours = [wire for wire in _found(found, "") if wire[3] is None or wire[0] in known]
    differs = sorted(theirs) != sorted(ours) or _order(theirs) != _order(ours)
    if ((name, version) in CHANGED_IN_PLACE) != differs:
        return f"fields {ours}, but expected {theirs}" if differs else "it is listed as changed, but is the same"
    return None


def _order(wires: list[_Wire]) -> list[str]:
    """Return the untagged fields in order."""
    return [path for path, _type, _nullable, tag in wires if tag is None]


def _found(structure: Layout, prefix: str) -> Iterator[_Wire]:
    for field in (*structure.fields, *structure.tagged):
        path = prefix + field.name
        yield path, _type(field), field.nullable, field.tag
        if field.structure is not None:
            inner = _found(field.structure, f"{path}.")
            yield from ((*wire[:3], 0 if field.tag is not None else wire[3]) for wire in inner)


def _type(field: FieldLayout) -> str:
    return f"{'[]' if field.array else ''}{field.kind}"


def _expected(fields: list[dict[str, Any]], version: int, names: Mapping[str, str]) -> Iterator[_Wire]:
    """Yield those fields of a table that exist in a version; a structure's fields follow the structure."""
    absent: tuple[str, ...] = ()
    in_tag: tuple[str, ...] = ()
    for field in fields:
        raw = field["path"].replace("[]", "")
        if absent and raw.startswith(absent):
            continue
        if version not in _range(field["versions"]):
            absent += (f"{raw}.",)
            continue
        kind = field["type"].removeprefix("[]")
        tag = int(field["tag"]) if version in _range(field.get("tagged_versions")) else None
        if in_tag and raw.startswith(in_tag):
            tag = 0
        elif tag is not None:
            in_tag += (f"{raw}.",)
        path = ".".join(_snake(names.get(part[0].lower() + part[1:], part)) for part in raw.split("."))
        yield (
            path,
            f"{'[]' if field['type'].startswith('[]') else ''}{'struct' if kind[0].isupper() else kind}",
            version in _range(field.get("nullable_versions")),
            tag,
        )


def check_versions(folder: Path, beside: Path | None = None) -> Iterator[Case]:
    """Check that every version of every message of a release has a vector.

    Args:
        folder: the vectors of the release, with `schema_parity.json` and `coverage.json`.
        beside: the folder with the vectors that are the same in a newer release.

    Yields:
        The message-version, and the problem, or None if there is none.
    """
    found = _counts(folder)
    shared: dict[str, dict[str, int]] = {}
    there: Counter[tuple[str, int]] = Counter()
    if beside is not None:
        shared = json.loads((folder / "coverage.json").read_text(encoding="utf-8"))["same_beside"]
        there = _counts(beside)
    for entry in json.loads((folder / "schema_parity.json").read_text(encoding="utf-8")):
        for version in _versions(entry):
            key = entry["name"], version
            same = min(shared.get(key[0], {}).get(str(version), 0), there[key])
            yield f"{key[0]} {version}", None if found[key] or same else "has no vector"


def check_newest_versions(folder: Path) -> Iterator[Case]:
    """Check that every known version has a vector: current versions in `folder`, and removed ones in a subfolder.

    The results are like those of `check_versions`. There are none for a folder without the table of messages, and none
    for removed versions if the folder contains a single release, in the form that the generator writes. The package's
    own folder must have vectors for current and removed versions.
    """
    if not (folder / "schema_parity.json").exists():
        return
    yield from check_versions(folder)
    older = [path for path in sorted(folder.iterdir()) if path.is_dir()]
    if not older and folder != VECTORS:
        return
    found = sum(map(_counts, older), Counter())
    for name in MODULES:
        for _release, versions in message_class(name).SCHEMA.removed:
            for version in versions.numbers():
                yield f"{name} {version}", None if found[name, version] else "is a removed version without a vector"


def _counts(folder: Path) -> Counter[tuple[str, int]]:
    """Return the number of vectors for each message-version."""
    found: Counter[tuple[str, int]] = Counter()
    for path in (folder / name for name in MESSAGE_FILES):
        if path.exists():
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                found.update((vector["name"], vector["version"]) for vector in map(json.loads, lines))
    return found


def _versions(entry: dict[str, Any]) -> range:
    return _range(entry["valid_versions"]).numbers()


def _range(text: str | None) -> VersionRange:
    """Read a range from a table; a missing range is empty."""
    if text in (None, "", "none"):
        return VersionRange(0, -1)
    first, _, last = str(text).partition("-")
    return VersionRange(int(first.removesuffix("+")), 32767 if first.endswith("+") else int(last or first))


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
