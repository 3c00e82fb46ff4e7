"""Bring a folder of schemas to the state of a Kafka release, all files or none.

Facts come from the release, descriptions stay: a field or message keeps its text, new ones arrive without. What the
folder becomes is checked as a whole before a file changes, and only files whose text changes are written.

Source: the definitions inside Kafka's jars, see `definitions.py`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from kafkawire.codegen.dump import dump
from kafkawire.codegen.file_set import replace_files
from kafkawire.codegen.load import load_folder
from kafkawire.codegen.located import Problem, SchemaError
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
from kafkawire.codegen.state import load_state

__all__ = ["ImportResult", "arrange", "import_release"]

#: The one API whose response header does not follow the rule: a client must be able to read the response before it
#: knows which versions the broker speaks (KIP-511).
_RESPONSE_HEADERS = {"ApiVersions": 0}

#: The folder of messages that are neither requests nor records of a topic.
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
    """What an import changed, as paths relative to the folder of schemas.

    Attributes:
        added: files that were not there.
        changed: files whose text changed.
        removed: files that the release no longer has.
        kept: files that the release does not have either, kept because `remove` was not set.
        undescribed: messages without a description.
    """

    added: tuple[Path, ...] = ()
    changed: tuple[Path, ...] = ()
    removed: tuple[Path, ...] = ()
    kept: tuple[Path, ...] = ()
    undescribed: tuple[str, ...] = ()


def import_release(
    messages: list[MessageSpec], folder: Path, tables: Mapping[Path, str] | None = None, *, remove: bool = False
) -> ImportResult:
    """Write `messages` into `folder`, keeping its descriptions.

    Args:
        messages: those of a release.
        folder: of schemas; created if it is missing.
        tables: text of tables that change with them, by path relative to `folder`.
        remove: whether to remove files of messages that are not among `messages`. Without it, an
            incomplete set of jars does no harm.

    Raises:
        SchemaError: a schema in the folder is wrong, or what the folder would become is; nothing was changed.
        OSError: a file cannot be written; nothing was changed.
    """
    old = load_folder(folder) if any(folder.rglob("*.yaml")) else {}
    texts = _Texts(old)
    new = {path: dump(texts.describe(file), len(path.parts) - 1) for path, file in arrange(messages).items()}
    surplus = tuple(path for path in old if path not in new)
    new |= tables or {}
    added = tuple(path for path in new if not (folder / path).exists())
    changed = tuple(path for path in new if path not in added and (folder / path).read_bytes() != new[path].encode())
    removed = surplus if remove else ()
    touched = {path: new[path] for path in (*added, *changed)}
    try:
        undescribed = _checked(folder, touched, removed)
    except SchemaError as error:
        if remove or not surplus:
            raise
        names = ", ".join(map(str, surplus))
        hint = Problem(folder, 0, f"the definitions do not have {names}; --remove removes these files")
        raise SchemaError.of((*error.problems, hint)) from error
    replace_files(folder, touched, removed)
    return ImportResult(added, changed, removed, () if remove else surplus, undescribed)


def _checked(folder: Path, texts: Mapping[Path, str], removed: tuple[Path, ...]) -> tuple[str, ...]:
    """Check what `folder` would become, in a copy, and return its messages without a description.

    Raises:
        SchemaError: the schemas would be wrong; names the files by their paths in `folder`.
    """
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "schemas"
        if folder.exists():
            shutil.copytree(folder, copy, ignore=_all_but_schemas)
        copy.mkdir(exist_ok=True)
        try:
            replace_files(copy, texts, removed)
            files = load_state(copy).files.values()
        except SchemaError as error:
            raise SchemaError.of(
                Problem(folder / problem.path.relative_to(copy), problem.line, problem.reason)
                for problem in error.problems
            ) from error
    return tuple(
        message.name
        for file in files
        for message in file.messages
        if message.versions and not (message.about or getattr(file, "about", ""))
    )


def _all_but_schemas(folder: str, names: list[str]) -> list[str]:
    """Return which entries of a folder are neither schemas nor folders."""
    return [name for name in names if not name.endswith(".yaml") and not (Path(folder) / name).is_dir()]


def arrange(messages: list[MessageSpec]) -> dict[Path, SchemaFile]:
    """Return the file of each message, by relative path.

    Raises:
        SchemaError: a request has no response, or a key no value.
    """
    by_name = {message.name: message for message in messages}
    files: dict[Path, SchemaFile] = {}
    headers = []
    for message in messages:
        name, kind = message.name, message.kind
        if kind == "request":
            api = name.removesuffix("Request")
            response = _other(by_name, message, f"{api}Response")
            files[_path("messages", api)] = ApiFile(api, message, response, _RESPONSE_HEADERS.get(api))
        elif kind == "coordinator-key":
            record = name.removesuffix("Key")
            topic = _topic(record)
            path = _path(f"coordinator/{topic.strip('_')}", record)
            files[path] = RecordFile(record, topic, message, _other(by_name, message, f"{record}Value"))
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


def _other(messages: Mapping[str, MessageSpec], one: MessageSpec, name: str) -> MessageSpec:
    """Return the message that belongs to `one`."""
    if name not in messages:
        raise SchemaError(Path(f"{one.name}.json"), 0, f"{one.name} has no {name}; are all jars of the release there?")
    return messages[name]


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
