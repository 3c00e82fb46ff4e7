"""The folder of an audit: recorded facts, the offsets reached, and the tables from the last completed run.

    current -> versions/7         the last complete version, through which everything else is reached
    tables -> current/tables      a folder for each table
    report.html -> current/report.html        if that version has a report
    versions/7/manifest.json      the checkpoint: which facts are in use, and where each partition continues
    facts/run=7/                  the facts that a run recorded

A run writes its facts and its version, and then replaces the link `current` in one step. Whenever it is killed, either
the old state or the new one is complete. The next run removes the leftovers of a killed run.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from kafkawire.sdk.errors import ConfigurationError

__all__ = ["AuditStore", "Manifest"]

#: The version of the format of manifest and facts; an audit in another format cannot be continued.
_FORMAT: Final = 3

_CURRENT, _VERSIONS, _FACTS, _MANIFEST, _LOCK = "current", "versions", "facts", "manifest.json", ".lock"

#: The public links next to `current`, which point through it.
_LINKS: Final = {"tables": f"{_CURRENT}/tables", "report.html": f"{_CURRENT}/report.html"}


#: Characters that Hadoop always interprets as part of a pattern in a path.
_PATTERN: Final = re.compile(r"[*?\[\]{}\\]")


class Manifest(NamedTuple):
    """The state of a complete version.

    Attributes:
        version: its number; 0 before the first version.
        options: the user's options; other options require another folder.
        runs: the runs whose facts are in use.
        next_offsets: where each partition continues, `[topic][partition]`.
        last_batches: facts that distinguish the batch before that position from others, `[topic][partition]`.
        topic_ids: the topic ids at the brokers, keyed by topic name.
    """

    version: int = 0
    options: Mapping[str, Any] = {}
    runs: tuple[int, ...] = ()
    next_offsets: Mapping[str, Mapping[str, int]] = {}
    last_batches: Mapping[str, Mapping[str, Sequence[int]]] = {}
    topic_ids: Mapping[str, str] = {}


class AuditStore:
    """The folder of an audit, for one run.

    Args:
        folder: its path. The folder is created if it does not exist; Spark's workers must reach it by the same path.
        options: the user's options.

    Attributes:
        folder: its absolute path.
        before: the last complete version; `forget` resets it.
        version: the number of the version being written.
        next_run: the number of the next run, which no earlier run has used.

    Raises:
        ConfigurationError: the folder contains other files or an audit with other options, or another audit is running.
        OSError: the folder cannot be used.
    """

    def __init__(self, folder: str | os.PathLike[str], options: Mapping[str, Any]) -> None:
        if "://" in str(folder):
            raise ConfigurationError("out", str(folder), "the driver and the workers must share the folder")
        if found := _PATTERN.search(str(Path(folder).resolve())):
            raise ConfigurationError("out", str(folder), f"Spark would treat {found[0]} in the path as a pattern")
        self.folder = Path(folder).resolve()
        self._options = dict(options)
        self.before = self._read()
        self.version = self.before.version + 1
        self.next_run = max(self.before.runs, default=0) + 1

    @property
    def facts_folder(self) -> Path:
        """The folder that contains the facts of all runs."""
        return self.folder / _FACTS

    @property
    def version_folder(self) -> Path:
        """The folder of the version being written."""
        return self.folder / _VERSIONS / str(self.version)

    def facts_of(self, run: int) -> Path:
        """Return the folder of the facts of a run."""
        return self.facts_folder / f"run={run}"

    def facts_bytes(self, runs: Iterable[int]) -> int:
        """Return the total size of the facts of some runs, in bytes."""
        return sum(path.stat().st_size for run in runs for path in self.facts_of(run).rglob("*.parquet"))

    def table(self, name: str) -> Path:
        """Return the folder of a table of the version being written."""
        return self.version_folder / "tables" / name

    def uri(self, path: Path) -> str:
        """Return a path below the folder as a URI: Spark's default file system may not be the local one."""
        return f"file://{path}"

    def __enter__(self) -> Self:
        """Lock the folder, and remove the leftovers of a killed run."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = _Lock(self.folder)
        try:
            self.before = self._read()
            self._lock.mark()
        except BaseException:
            self._lock.close()
            raise
        self.version = self.before.version + 1
        self.next_run = max(self.before.runs, default=0) + 1
        self._clean(self.before)
        return self

    def forget(self) -> None:
        """Make the next version start over; the current version is kept until the next one is complete."""
        self.before = Manifest(version=self.before.version, options=self.before.options)

    def __exit__(self, *error: object) -> None:
        self._lock.close()

    def commit(self, noted: Manifest) -> None:
        """Make the written version the current one.

        Args:
            noted: its state; the store supplies the version number and the options.

        Raises:
            OSError: the manifest cannot be written.
        """
        manifest = noted._replace(version=self.version, options=self._options)
        self.version_folder.mkdir(parents=True, exist_ok=True)
        with (self.version_folder / _MANIFEST).open("w", encoding="utf-8") as file:
            json.dump({"format": _FORMAT, **manifest._asdict()}, file, indent=1, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        self._link(_CURRENT, f"{_VERSIONS}/{self.version}")
        for name, target in _LINKS.items():
            link = self.folder / name
            if not (self.folder / target).exists():
                if link.is_symlink():
                    link.unlink()
            elif not link.is_symlink():
                self._link(name, target)
        self._clean(manifest)

    def _read(self) -> Manifest:
        path = self.folder / _CURRENT / _MANIFEST
        try:
            found = json.loads(path.read_text("utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            foreign = sorted({each.name for each in self._listed()} - self._own_names())
            if foreign:
                reason = f"expected an empty folder or an audit, but the folder contains {', '.join(foreign[:3])}"
                raise ConfigurationError("out", str(self.folder), reason) from None
            return Manifest()
        except ValueError as error:
            raise ConfigurationError("out", str(self.folder), f"cannot read {path.name}: {error}") from None
        if found.pop("format", None) != _FORMAT:
            raise ConfigurationError(
                "out", str(self.folder), "the audit there was made by another release of kafkawire"
            )
        manifest = Manifest(**found)
        if dict(manifest.options) != json.loads(json.dumps(self._options)):
            reason = f"the audit was made with {json.dumps(manifest.options)}; different options need another folder"
            raise ConfigurationError("out", str(self.folder), reason)
        return manifest._replace(runs=tuple(manifest.runs))

    def _own_names(self) -> set[str]:
        """Return the names that killed runs may have left before the first version; none if the folder has no mark."""
        mark = _Lock.mark_of(self.folder)
        if mark == _Lock.MARK:
            return {_LOCK, _VERSIONS, _FACTS, *(f".{name}.new" for name in (_CURRENT, *_LINKS))}
        return set() if mark else {_LOCK}

    def _listed(self) -> list[Path]:
        if not self.folder.exists():
            return []
        if not self.folder.is_dir():
            raise ConfigurationError("out", str(self.folder), "expected a folder")
        return list(self.folder.iterdir())

    def _link(self, name: str, target: str) -> None:
        """Create or replace a link in a single step."""
        new = self.folder / f".{name}.new"
        new.unlink(missing_ok=True)
        new.symlink_to(target)
        os.replace(new, self.folder / name)

    def _clean(self, manifest: Manifest) -> None:
        """Remove versions and facts that are no longer in use."""
        kept = {str(manifest.version), *(f"run={run}" for run in manifest.runs)}
        for name in (_VERSIONS, _FACTS):
            for path in (self.folder / name).glob("*"):
                if path.name not in kept:
                    shutil.rmtree(path)


class _Lock:
    """Keeps other processes out of a folder until it is closed or the process ends.

    Its file marks the folder as an audit's, which keeps an unrelated `facts` folder from being mistaken for a run's
    leftovers.
    """

    MARK: Final = b"kafkawire audit\n"

    def __init__(self, folder: Path) -> None:
        import fcntl  # not available on Windows, where Spark has no Python workers either

        self._file = (folder / _LOCK).open("ab")  # keeps the content: it may be the mark, or belong to another program
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException as error:
            self._file.close()
            if isinstance(error, BlockingIOError):
                raise ConfigurationError("out", str(folder), "another audit is writing there") from None
            raise

    @classmethod
    def mark_of(cls, folder: Path) -> bytes:
        """Return the beginning of a folder's lock file; empty if there is none."""
        try:
            with (folder / _LOCK).open("rb") as file:
                return file.read(len(cls.MARK) + 1)
        except FileNotFoundError:
            return b""

    def mark(self) -> None:
        """Mark the folder as an audit's."""
        if not self._file.tell():
            self._file.write(self.MARK)
            self._file.flush()

    def close(self) -> None:
        """Release the lock."""
        self._file.close()
