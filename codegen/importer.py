"""Bring a folder of schemas to the state of a Kafka release.

Facts come from the release, descriptions stay: a field or message keeps the text that it had, new ones arrive
without. Files are written only where their text changes.

Source: the definitions inside Kafka's jars, see `definitions.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from kafkawire.codegen.dump import dump
from kafkawire.codegen.load import load_file, load_folder
from kafkawire.codegen.spec import (
    ApiFile,
    FieldSpec,
    MessageSpec,
    RecordFile,
    SchemaFile,
    SingleFile,
    StructSpec,
    snake_case,
)

__all__ = ["ImportResult", "arrange", "import_release"]

#: The one API whose response header does not follow the rule: a client must be able to read the answer before it
#: knows which versions the broker speaks (KIP-511).
_RESPONSE_HEADERS = {"ApiVersions": 0}

#: Where messages live that are neither requests nor records of a topic.
_DATA_FOLDERS = {
    "ConsumerProtocolAssignment": "groups",
    "ConsumerProtocolSubscription": "groups",
    "DefaultPrincipalData": "messages",
    "ProducerSnapshot": "storage",
    "QuorumStateData": "storage",
}

#: Record types of the internal topics, by what their names begin with.
_COORDINATOR_TOPICS = {"Share": "__share_group_state", "Transaction": "__transaction_state"}
_SHARE_STATE_RECORDS = ("ShareSnapshot", "ShareUpdate")


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What an import changed, as paths relative to the folder of schemas."""

    added: tuple[Path, ...]
    changed: tuple[Path, ...]
    removed: tuple[Path, ...]


def import_release(messages: list[MessageSpec], folder: Path) -> ImportResult:
    """Write `messages` into `folder`, keeping the descriptions that stand there.

    Returns:
        The files that were written, and those that hold nothing any more and were removed.

    Raises:
        SchemaError: a schema that is there already is wrong.
    """
    old = load_folder(folder) if any(folder.rglob("*.yaml")) else {}
    texts = _Texts(old)
    added: list[Path] = []
    changed: list[Path] = []
    new = arrange(messages)
    for relative, file in new.items():
        path = folder / relative
        text = dump(texts.describe(file), depth=len(relative.parts) - 1)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            (changed if path.exists() else added).append(relative)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            load_file(path)
    removed = tuple(path for path in old if path not in new)
    for path in removed:
        (folder / path).unlink()
    return ImportResult(tuple(added), tuple(changed), removed)


def arrange(messages: list[MessageSpec]) -> dict[Path, SchemaFile]:
    """Return the file that each message belongs into, by relative path."""
    by_name = {message.name: message for message in messages}
    files: dict[Path, SchemaFile] = {}
    headers = []
    for message in messages:
        name, kind = message.name, message.kind
        if kind == "request":
            api = name.removesuffix("Request")
            response = by_name[f"{api}Response"]
            files[_path("messages", api)] = ApiFile(api, message, response, _RESPONSE_HEADERS.get(api))
        elif kind == "coordinator-key":
            record = name.removesuffix("Key")
            topic = _topic(record)
            path = _path(f"coordinator/{topic.strip('_')}", record)
            files[path] = RecordFile(record, topic, message, by_name[f"{record}Value"])
        elif kind == "header":
            headers.append(message)
        elif kind == "metadata":
            topic = "remote_log_metadata" if name.startswith("Remote") else "cluster_metadata"
            files[_path(topic, name)] = SingleFile((message,))
        elif kind == "data":
            files[_path(_DATA_FOLDERS.get(name, "records/control"), name)] = SingleFile((message,))
    if headers:
        files[Path("headers.yaml")] = SingleFile(tuple(headers))
    return dict(sorted(files.items()))


def _path(folder: str, name: str) -> Path:
    return Path(PurePosixPath(folder) / f"{snake_case(name)}.yaml")


def _topic(record: str) -> str:
    if record in _SHARE_STATE_RECORDS:
        return _COORDINATOR_TOPICS["Share"]
    return _COORDINATOR_TOPICS["Transaction"] if record.startswith("Transaction") else "__consumer_offsets"


class _Texts:
    """The descriptions of a folder, by message and field path."""

    def __init__(self, files: dict[Path, SchemaFile]) -> None:
        #: By kind and name: an API and a record can have the same name, as OffsetCommit does.
        self._files: dict[tuple[type[SchemaFile], str], str] = {}
        self._texts: dict[tuple[str, str], str] = {}
        for file in files.values():
            if not isinstance(file, SingleFile):
                self._files[type(file), file.name] = file.about
            for message in file.messages:
                self._texts[message.name, ""] = message.about
                self._learn(message.name, "", message.fields)
                for struct in message.structs:
                    self._texts[message.name, struct.name] = struct.about
                    self._learn(message.name, f"{struct.name}.", struct.fields)

    def _learn(self, message: str, prefix: str, fields: tuple[FieldSpec, ...]) -> None:
        for field in fields:
            self._texts[message, prefix + field.name] = field.about
            self._learn(message, f"{prefix}{field.name}.", field.fields or ())

    def describe(self, file: SchemaFile) -> SchemaFile:
        """Return `file` with the descriptions that are known."""
        match file:
            case ApiFile():
                about = self._files.get((type(file), file.name), "")
                request, response = self._message(file.request), self._message(file.response)
                return replace(file, about=about, request=request, response=response)
            case RecordFile():
                about = self._files.get((type(file), file.name), "")
                return replace(file, about=about, key=self._message(file.key), value=self._message(file.value))
            case SingleFile():
                return SingleFile(tuple(map(self._message, file.messages)))

    def _message(self, message: MessageSpec) -> MessageSpec:
        def fields(prefix: str, items: tuple[FieldSpec, ...]) -> tuple[FieldSpec, ...]:
            return tuple(
                replace(
                    item,
                    about=self._texts.get((message.name, prefix + item.name), ""),
                    fields=None if item.fields is None else fields(f"{prefix}{item.name}.", item.fields),
                )
                for item in items
            )

        def struct(item: StructSpec) -> StructSpec:
            about = self._texts.get((message.name, item.name), "")
            return replace(item, about=about, fields=fields(f"{item.name}.", item.fields))

        return replace(
            message,
            about=self._texts.get((message.name, ""), ""),
            fields=fields("", message.fields),
            structs=tuple(map(struct, message.structs)),
        )
