"""What is in the folder for a broker's files, and whether a broker could start with it; nothing is changed.

The rules are those of a start: `take_identity_alone` for a standalone broker, `prepare` for a broker in a cluster,
except that the registry of the cluster is not asked.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from kafkawire.commands.broker.findings import Finding, FolderFacts, Kind
from kafkawire.reference_broker.storage.checkpoints import CLEAN_SHUTDOWN, LOCK
from kafkawire.sdk.storage.damage import DamagedContent
from kafkawire.sdk.storage.meta_properties import (
    META_PROPERTIES,
    WITH_BROKER_ID,
    WITH_NODE_ID,
    MetaProperties,
    parse_meta_properties,
)
from kafkawire.sdk.storage.partitions import partition_folder

__all__ = ["FREE_BYTES_MIN", "folder_facts", "folder_findings"]

#: With less free space than this, the folder is reported: it is the default size of one segment.
FREE_BYTES_MIN = 1024 * 1024 * 1024

#: File systems whose content is gone after a restart of the machine.
_IN_MEMORY = frozenset({"tmpfs", "ramfs"})

#: Where Linux lists the mounted file systems.
_MOUNTS = Path("/proc/self/mounts")


def folder_facts(path: str) -> FolderFacts:
    """Return what is in a folder, as far as it can be read."""
    folder = Path(path).absolute()
    free_bytes, size_bytes = _space(folder)
    if not folder.is_dir():
        return FolderFacts(str(folder), folder.exists(), free_bytes=free_bytes, size_bytes=size_bytes)
    partitions = _partitions(folder)
    identity = _identity(folder)
    is_known = isinstance(identity, MetaProperties)
    return FolderFacts(
        str(folder),
        True,
        identity.node_id if isinstance(identity, MetaProperties) else None,
        identity.cluster_id if isinstance(identity, MetaProperties) else None,
        len({topic for topic, _ in partitions}),
        len(partitions),
        (folder / CLEAN_SHUTDOWN).exists() if is_known else None,
        free_bytes,
        size_bytes,
    )


def folder_findings(facts: FolderFacts, node_id: int | None, *, is_alone: bool) -> Iterator[Finding]:
    """Yield what is wrong with a folder.

    Args:
        facts: what is in it.
        node_id: the broker's id; None if it is not configured.
        is_alone: whether the broker is standalone.
    """
    folder = Path(facts.path)
    reason = _reason_against_use(folder)
    if reason is not None:
        yield Finding(Kind.ERROR, facts.path, reason)
        return
    if facts.exists:
        reason = _reason_against_identity(folder, facts, node_id, is_alone)
        if reason is not None:
            yield Finding(Kind.ERROR, facts.path, reason)
        if _is_locked(folder):
            yield Finding(Kind.ERROR, facts.path, "the folder is in use by a running broker.")
        elif facts.was_clean is False:
            text = "the last broker here did not stop cleanly, so the next start checks the ends of all logs."
            yield Finding(Kind.WARNING, facts.path, text)
        if folder.stat().st_mode & stat.S_IWOTH:
            yield Finding(Kind.UNSAFE, facts.path, "every user of this machine may change or delete files in it.")
    if (kind := _file_system(folder)) in _IN_MEMORY:
        text = f"the file system ({kind}) is in memory, so all records are lost when the machine restarts."
        yield Finding(Kind.UNSAFE, facts.path, text)
    if facts.free_bytes is not None and facts.free_bytes < FREE_BYTES_MIN:
        text = f"only {facts.free_bytes // 1024**2} MiB are free, less than one segment may take by default."
        yield Finding(Kind.WARNING, facts.path, text)


def _reason_against_use(folder: Path) -> str | None:
    """Return why a broker cannot use a folder, or cannot create it; None if it can."""
    if folder.exists() and not folder.is_dir():
        return "this is not a folder."
    if folder.is_symlink() and not folder.exists():
        return "this is a broken link."
    nearest = _nearest(folder)
    if not nearest.is_dir():
        return f"the folder cannot be created, because {nearest} is not a folder."
    if os.access(nearest, os.R_OK | os.W_OK | os.X_OK):
        return None
    if nearest == folder:
        return "this user may not read and write the folder."
    return f"the folder cannot be created, because this user may not write to {nearest}."


def _reason_against_identity(folder: Path, facts: FolderFacts, node_id: int | None, is_alone: bool) -> str | None:
    """Return why the folder's owner cannot be this broker; None if it can, or if the folder is new."""
    identity = _identity(folder)
    if isinstance(identity, str):
        return identity
    if identity is None:
        if is_alone and any(number == 0 for _, number in _partitions(folder)):
            return f"the folder has {facts.partitions} partitions but no {META_PROPERTIES}, so its owner is unknown."
        return None
    if is_alone and identity.version != WITH_NODE_ID:
        return f"the folder belongs to broker {identity.node_id} in a cluster with ZooKeeper."
    if not is_alone and identity.version != WITH_BROKER_ID:
        return f"the folder belongs to broker {identity.node_id}, which has no ZooKeeper."
    if node_id is not None and identity.node_id != str(node_id):
        return f"the folder belongs to broker {identity.node_id}, but this one is broker {node_id}."
    return None


def _identity(folder: Path) -> MetaProperties | str | None:
    """Return the owner of a folder, a sentence that says why it cannot be read, or None for a new folder."""
    try:
        return parse_meta_properties((folder / META_PROPERTIES).read_bytes())
    except FileNotFoundError:
        return None
    except DamagedContent as error:
        return f"{META_PROPERTIES} is damaged: {error}."
    except OSError as error:
        return f"{META_PROPERTIES} cannot be read: {error.strerror}."


def _partitions(folder: Path) -> list[tuple[str, int]]:
    """Return the partitions in use; empty if the folder cannot be read."""
    try:
        found = (partition_folder(name) for name in os.listdir(folder))
        return [each.partition for each in found if each is not None and not each.set_aside]
    except OSError:
        return []


def _is_locked(folder: Path) -> bool:
    """Return whether a running broker holds the folder's lock."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def _nearest(folder: Path) -> Path:
    """Return the folder, or its nearest parent that exists."""
    return next(each for each in (folder, *folder.parents) if each.exists())


def _space(folder: Path) -> tuple[int | None, int | None]:
    """Return the free space and the size of the file system, in bytes."""
    try:
        found = os.statvfs(_nearest(folder))
    except OSError:
        return None, None
    return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize


def _file_system(folder: Path) -> str:
    """Return the type of the folder's file system; empty if it is unknown."""
    path = os.path.realpath(_nearest(folder))
    best, found = "", ""
    try:
        lines = _MOUNTS.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        _, place, kind, *_ = (*line.split(" "), "", "", "")
        place = place.encode("ascii", "replace").decode("unicode_escape")  # a space is written as \040
        if (path == place or path.startswith(place.rstrip("/") + "/")) and len(place) >= len(best):
            best, found = place, kind
    return found
