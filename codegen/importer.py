"""Update a folder of schemas to match a Kafka release, or add versions from older releases: all files or none.

Facts come from the release, and descriptions are kept: existing fields and messages keep their text, and new ones have
none. A version that is no longer in the release is also kept, as a removed version. The resulting folder is checked as
a whole before any file is changed, and only files with changed text are written.

Source: the definitions inside Kafka's jars; see `definitions.py`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from kafkawire.codegen.definitions import Release, release_order
from kafkawire.codegen.dump import dump
from kafkawire.codegen.file_set import replace_files
from kafkawire.codegen.history import file_as_history, file_with_history
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
from kafkawire.codegen.tables import load_enumerations
from kafkawire.codegen.versions import NONE

__all__ = ["ImportResult", "arrange", "import_history", "import_release"]

#: The only API whose response header does not follow the rule, because a client must be able to read the response
#: before it knows which versions the broker supports (KIP-511).
_RESPONSE_HEADERS = {"ApiVersions": 0}

#: The only API whose first requests have a special header, without a client id.
_FIRST_REQUEST_HEADERS = {"ControlledShutdown": 0}

#: The constant in the schemas that names the release they describe.
_RELEASE = "KAFKA_RELEASE"
_ENUMERATIONS = "enumerations.yaml"

#: The folder of messages that are neither requests nor records of a topic.
_DATA_FOLDERS = {
    "ConsumerProtocolAssignment": "groups",
    "ConsumerProtocolSubscription": "groups",
    "DefaultPrincipalData": "messages",
    "ProducerSnapshot": "storage",
    "QuorumStateData": "storage",
}

#: The topics of coordinators other than the group coordinator, keyed by the prefix of their record types' names.
_COORDINATOR_TOPICS = {"Share": "__share_group_state", "Transaction": "__transaction_state"}
_SHARE_STATE_RECORDS = ("ShareSnapshot", "ShareUpdate")


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The changes made by an import, as paths relative to the folder of schemas.

    Attributes:
        added: new files.
        changed: files whose text changed.
        removed: files that the release no longer has.
        kept: files that the release no longer has, kept because `remove` was not set.
        undescribed: messages without a description.
    """

    added: tuple[Path, ...] = ()
    changed: tuple[Path, ...] = ()
    removed: tuple[Path, ...] = ()
    kept: tuple[Path, ...] = ()
    undescribed: tuple[str, ...] = ()


def import_release(
    messages: list[MessageSpec],
    folder: Path,
    tables: Mapping[Path, str] | None = None,
    *,
    remove: bool = False,
    release: str | None = None,
) -> ImportResult:
    """Write `messages` into `folder`; keep its descriptions and, marked as removed, the versions that `messages` lack.

    Args:
        messages: the messages of a release.
        folder: the folder of schemas; created if it is missing.
        tables: texts of tables that change along with the messages, keyed by path relative to `folder`.
        remove: whether to remove messages that are not among `messages`: they become history or, if no history is kept,
            their files are removed. If it is not set, an incomplete set of jars does no harm.
        release: the number of the release, such as 4.4, which is recorded as the one that removed missing versions. No
            history is kept if it is None, or if it is older than the release that the folder describes, since an older
            release cannot have removed anything.

    Raises:
        SchemaError: a schema in the folder is wrong or would become wrong, or a message cannot be joined with its
            history; nothing was changed.
        OSError: a file cannot be written; nothing was changed.
    """
    old = load_folder(folder) if any(folder.rglob("*.yaml")) else {}
    files = arrange(messages)
    present = _release(folder)
    if release is not None and present is not None and release_order(release) < release_order(present):
        release = None
    surplus = tuple(path for path, file in old.items() if path not in files and (release is None or _lives(file)))
    gone = surplus if remove else ()
    if release is not None:
        files, gone = _with_history(files, old, gone, release), ()
    try:
        return _write(folder, _texts(files, old) | dict(tables or {}), gone, () if remove else surplus)
    except SchemaError as error:
        if remove or not surplus:
            raise
        names = ", ".join(map(str, surplus))
        hint = Problem(folder, 0, f"the definitions lack {names}; use --remove to remove these files")
        raise SchemaError.of((*error.problems, hint)) from error


def _with_history(
    files: Mapping[Path, SchemaFile], old: Mapping[Path, SchemaFile], gone: Iterable[Path], release: str
) -> dict[Path, SchemaFile]:
    """Return the files of a release, including what it removed: versions of messages, and entire files (`gone`)."""

    def removed_in(_name: str, _version: int) -> str:
        return release

    joined = {
        path: file_with_history(file, old[path], removed_in) if path in old else file for path, file in files.items()
    }
    return joined | {path: file_as_history(old[path], removed_in) for path in gone}


def _lives(file: SchemaFile) -> bool:
    """Return whether a release should still have the messages in a file."""
    return any(message.versions or not message.removed for message in file.messages)


def import_history(older: Release, later: Iterable[Release], folder: Path) -> ImportResult:
    """Add the versions that only an older release has to the schemas in `folder`, recording which release removed each.

    Versions that the folder already knows stay unchanged, so a second import changes nothing.

    Args:
        older: the release whose versions are added.
        later: releases between that one and the folder's, which determine when a version was removed; without them, the
            folder's release is recorded as the one that removed it.
        folder: the folder of schemas.

    Raises:
        SchemaError: the folder does not name the release that it describes, a schema in it is wrong, or a message
            cannot be joined with its history; nothing was changed.
        OSError: a file cannot be written; nothing was changed.
    """
    old = load_folder(folder)
    present = _release(folder)
    if present is None:
        raise SchemaError(folder / _ENUMERATIONS, 0, f"the constant {_RELEASE} is missing, so the release is unknown")
    states = [
        (release.number, {message.name: message.versions for message in release.messages})
        for release in sorted(later, key=lambda release: release_order(release.number))
    ]

    def removed_in(name: str, version: int) -> str:
        return next((number for number, state in states if version not in state.get(name, NONE)), present)

    files = {
        path: file_as_history(file, removed_in) if path not in old else file_with_history(old[path], file, removed_in)
        for path, file in arrange(older.messages).items()
    }
    return _write(folder, _texts(files, old), (), ())


def _release(folder: Path) -> str | None:
    """Return the release that the schemas in `folder` describe, such as 4.3; None if they do not name it."""
    path = folder / _ENUMERATIONS
    constants = load_enumerations(path)[1] if path.exists() else ()
    found = next((str(constant.value) for constant in constants if constant.name == _RELEASE), None)
    return None if found is None else ".".join(found.split(".")[:2])


def _texts(files: Mapping[Path, SchemaFile], old: dict[Path, SchemaFile]) -> dict[Path, str]:
    """Return the text of each file, with the folder's descriptions."""
    texts = _Texts(old)
    return {path: dump(texts.describe(file), len(path.parts) - 1) for path, file in files.items()}


def _write(folder: Path, new: Mapping[Path, str], removed: tuple[Path, ...], kept: tuple[Path, ...]) -> ImportResult:
    """Check the resulting folder, then write the changes."""
    added = tuple(path for path in new if not (folder / path).exists())
    changed = tuple(path for path in new if path not in added and (folder / path).read_bytes() != new[path].encode())
    touched = {path: new[path] for path in (*added, *changed)}
    undescribed = _checked(folder, touched, removed)
    replace_files(folder, touched, removed)
    return ImportResult(added, changed, removed, kept, undescribed)


def _checked(folder: Path, texts: Mapping[Path, str], removed: tuple[Path, ...]) -> tuple[str, ...]:
    """Check the result in a copy of `folder`, and return the messages that lack a description.

    Raises:
        SchemaError: the schemas would be wrong; the error names the files by their paths in `folder`.
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
        if message.known and not (message.about or getattr(file, "about", ""))
    )


def _all_but_schemas(folder: str, names: list[str]) -> list[str]:
    """Return the entries in a folder that are neither schemas nor subfolders."""
    return [name for name in names if not name.endswith(".yaml") and not (Path(folder) / name).is_dir()]


def arrange(messages: list[MessageSpec]) -> dict[Path, SchemaFile]:
    """Return the files for the messages, keyed by relative path.

    Raises:
        SchemaError: a request has no response, or a key has no value.
    """
    by_name = {message.name: message for message in messages}
    files: dict[Path, SchemaFile] = {}
    headers = []
    for message in messages:
        name, kind = message.name, message.kind
        if kind == "request":
            api = name.removesuffix("Request")
            response = _other(by_name, message, f"{api}Response")
            first_header = _FIRST_REQUEST_HEADERS.get(api) if 0 in message.versions else None
            file = ApiFile(api, message, response, _RESPONSE_HEADERS.get(api), first_request_header=first_header)
            files[_path("messages", api)] = file
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
    """Return the counterpart of a message: its response or value."""
    if name not in messages:
        raise SchemaError(
            Path(f"{one.name}.json"), 0, f"{one.name} has no matching {name}; are all of the release's jars present?"
        )
    return messages[name]


def _path(folder: str, name: str) -> Path:
    return Path(PurePosixPath(folder) / f"{snake_case(name)}.yaml")


def _topic(record: str) -> str:
    if record in _SHARE_STATE_RECORDS:
        return _COORDINATOR_TOPICS["Share"]
    return _COORDINATOR_TOPICS["Transaction"] if record.startswith("Transaction") else "__consumer_offsets"


class _Texts:
    """The descriptions in a folder, keyed by message and field path."""

    def __init__(self, files: dict[Path, SchemaFile]) -> None:
        #: Keyed by kind and name, because an API and a record can have the same name, for example OffsetCommit.
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
        """Return `file` with the known descriptions."""
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
