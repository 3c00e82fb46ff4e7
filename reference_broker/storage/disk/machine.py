"""The machine's disk: a data directory, accessed through the operating system."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import stat
from pathlib import Path

from kafkawire.reference_broker.storage.disk.disk import Volume
from kafkawire.reference_broker.storage.disk.reserves import kept_from_logs
from kafkawire.sdk.protocol.schema import Buffer

__all__ = ["MachineDisk"]

_FILE_MODE = 0o644
_PRIVATE_FILE_MODE = 0o600


class MachineDisk:
    """The files under a directory.

    Args:
        root: the directory, created with its parents if it does not exist.

    Raises:
        NotADirectoryError: the path is not a folder, or is a broken link.
        OSError: the folder cannot be created.
    """

    def __init__(self, root: str | Path) -> None:
        try:
            Path(root).mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            reason = "not a folder" if os.path.exists(root) else "a broken link"
            raise NotADirectoryError(errno.ENOTDIR, reason, str(root)) from None
        self._root = os.path.abspath(root)

    def describe(self, path: str) -> str:
        return self._at(path)

    def open(self, path: str, *, create: bool = False, stays: bool = False, is_private: bool = False) -> _MachineFile:
        file = _MachineFile(self._at(path), create, _PRIVATE_FILE_MODE if is_private else _FILE_MODE)
        if stays and (reason := _reserve_reached(file.fileno())):
            del file  # the traceback would keep the file open
            raise OSError(errno.EMFILE, reason, self._at(path))
        return file

    def size_of(self, path: str) -> int:
        return os.stat(self._at(path)).st_size

    def volume(self) -> Volume:
        found = os.statvfs(self._root)
        return Volume(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)

    def names(self, path: str) -> list[str]:
        return sorted(os.listdir(self._at(path)))

    def make_folder(self, path: str) -> None:
        try:
            os.mkdir(self._at(path))
        except FileExistsError:
            if not os.path.isdir(self._at(path)):
                raise

    def rename(self, old: str, new: str) -> None:
        os.replace(self._at(old), self._at(new))

    def remove(self, path: str) -> None:
        os.unlink(self._at(path))

    def remove_folder(self, path: str) -> None:
        os.rmdir(self._at(path))

    def sync_folder(self, path: str) -> None:
        descriptor = os.open(self._at(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise _named(error, self._at(path)) from None
        finally:
            os.close(descriptor)

    def lock(self, path: str) -> _MachineLock:
        return _MachineLock(self._at(path))

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root


class _MachineFile:
    __slots__ = ("__weakref__", "_descriptor", "_path", "size_bytes")

    def __init__(self, path: str, create: bool, mode: int) -> None:
        self._path = path
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        self._descriptor = os.open(path, flags, mode)
        status = os.fstat(self._descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)  # reads and writes could block, or never end
        self.size_bytes = status.st_size

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)

    def fileno(self) -> int:
        return self._descriptor

    def append(self, data: Buffer) -> None:
        try:
            with memoryview(data) as view:
                written = os.write(self._descriptor, view)
                self.size_bytes += written
                # The kernel may write less than requested when the disk is full or a signal arrives.
                while written < len(view):
                    more = os.write(self._descriptor, view[written:])
                    self.size_bytes += more
                    written += more
        except OSError as error:
            raise _named(error, self._path) from None

    def read(self, position: int, size_bytes: int) -> bytes:
        try:
            # Never request more than the size of the file, since memory for the result is reserved before reading.
            wanted_bytes = min(size_bytes, max(self.size_bytes - position, 0))
            data = os.pread(self._descriptor, wanted_bytes, position)
            while 0 < len(data) < wanted_bytes:
                more = os.pread(self._descriptor, wanted_bytes - len(data), position + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            raise _named(error, self._path) from None
        return data

    def truncate(self, size_bytes: int) -> None:
        try:
            os.ftruncate(self._descriptor, size_bytes)
        except OSError as error:
            raise _named(error, self._path) from None
        self.size_bytes = size_bytes

    def sync(self) -> None:
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise _named(error, self._path) from None


class _MachineLock:
    __slots__ = ("_descriptor",)

    def __init__(self, path: str) -> None:
        self._descriptor: int | None = None
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise _named(error, path) from None
        self._descriptor = descriptor

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    __del__ = release


def _reserve_reached(descriptor: int) -> str:
    """Return why a file may not stay open, or "". Every descriptor below a newly opened one is in use."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    kept = kept_from_logs(limit)
    if limit == resource.RLIM_INFINITY or descriptor < limit - kept:
        return ""
    return f"{os.strerror(errno.EMFILE)}: the last {kept} of {limit} file descriptors are reserved for connections"


def _named(error: OSError, path: str) -> OSError:
    """Return an error that names its file; the system does not provide the name for a call on a descriptor."""
    return OSError(error.errno, error.strerror, path)
