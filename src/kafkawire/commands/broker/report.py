"""Write the report of `kafkawire broker --check` as text or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator

from kafkawire.commands.broker.findings import FolderFacts, Kind, Report
from kafkawire.commands.streams import printable

__all__ = ["as_json", "as_text"]

_GIBIBYTE = 1024**3

_TITLES = {
    Kind.ERROR: "Errors, because of which the broker would not start:",
    Kind.UNSAFE: "Unsafe:",
    Kind.WARNING: "Warnings:",
    Kind.WITHOUT_EFFECT: "Options without effect:",
}


def as_json(report: Report) -> str:
    """Return the report as one JSON object, indented, with a line end."""
    content = {
        "would_start": report.would_start,
        "mode": report.mode,
        "node_id": report.node_id,
        "zookeeper": report.zookeeper,
        "listeners": [each._asdict() for each in report.listeners],
        "folder": None if report.folder is None else report.folder._asdict(),
        "open_files_max": report.open_files_max,
        "options": [each._asdict() for each in report.options],
        "findings": [{**each._asdict(), "kind": each.kind.value} for each in report.findings],
    }
    return json.dumps(content, indent=2, ensure_ascii=True) + "\n"


def as_text(report: Report) -> str:
    """Return the report as lines of text; control characters in values are escaped."""
    return "".join(f"{printable(line)}\n" for line in _lines(report))


def _lines(report: Report) -> Iterator[str]:
    if report.mode is not None:
        yield _mode(report)
        yield "Listeners:"
        for each in report.listeners:
            advertised = "" if each.advertised == each.address else f", advertised as {each.advertised}"
            logins = f" with {' or '.join(each.logins)}" if each.logins else ""
            yield f"  {each.name}: {each.protocol}{logins} on {each.address}{advertised}, for {each.role}"
        yield "Files: none, everything is in memory" if report.folder is None else f"Files: {_folder(report.folder)}"
        yield f"Limit on open files and connections: {report.open_files_max}"
    if report.options:
        yield "Options that differ from the defaults:"
        for option in report.options:
            yield f"  {option.kafka_name or option.name} = {option.value} (default: {option.default or 'none'})"
    for kind, title in _TITLES.items():
        found = [each for each in report.findings if each.kind is kind]
        if found:
            yield title
            # The text of an error about an option begins with the option.
            yield from (
                f"  {each.text}" if each.text.startswith(each.subject) else f"  {each.subject}: {each.text}"
                for each in found
            )
    yield "The broker would start." if report.would_start else "The broker would not start."


def _mode(report: Report) -> str:
    name = "Broker whose id the folder or the cluster determines"
    if report.node_id is not None:
        name = f"Broker {report.node_id}"
    if report.zookeeper is None:
        return f"{name}: standalone"
    return f"{name}: in the cluster of ZooKeeper at {report.zookeeper}, which was not contacted"


def _folder(folder: FolderFacts) -> str:
    space = ""
    if folder.free_bytes is not None and folder.size_bytes is not None:
        free, size = (count / _GIBIBYTE for count in (folder.free_bytes, folder.size_bytes))
        space = f"; {free:.1f} of {size:.1f} GiB free"
    if not folder.exists:
        return f"{folder.path}, which the start creates{space}"
    if folder.node_id is None:
        return f"{folder.path}, without a broker's files{space}"
    end = "stopped cleanly" if folder.was_clean else "not stopped cleanly"
    owner = f"broker {folder.node_id} of cluster {folder.cluster_id}, {end}"
    return f"{folder.path}: {folder.topics} topics, {folder.partitions} partitions; {owner}{space}"
