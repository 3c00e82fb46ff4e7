"""Segments that were compressed or put in an archive: `….log.gz`, `backup.tar.gz`.

A packed segment is unpacked into a temporary file each time it is opened, because it cannot be read from the middle. A
task therefore reads such a segment as a whole, and needs enough disk space for it.
"""

from __future__ import annotations

import re
import tarfile
import tempfile
from collections.abc import Callable
from shutil import copyfileobj
from typing import IO, Any, Final

import pyarrow

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.spark.segments.listing import ListedFile

__all__ = ["is_archive", "is_packed", "members", "open_packed", "without_packing"]

#: Suffixes of compressed files, with the names of the codecs in `pyarrow`.
_CODECS: Final = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}

#: Suffixes of the archives that `tarfile` can read.
_ARCHIVE: Final = re.compile(r".*\.(?:tar|tgz|tbz2|txz|tar\.(?:gz|bz2|xz))", re.DOTALL | re.IGNORECASE)

#: The separator between the path of an archive and the name of a file in it.
_INSIDE: Final = "!/"


def is_archive(path: str) -> bool:
    """Return whether a file is an archive, judging by its name."""
    return _ARCHIVE.fullmatch(path) is not None


def is_packed(path: str) -> bool:
    """Return whether a file is compressed or in an archive, judging by its name."""
    return without_packing(path) != path or _INSIDE in path


def without_packing(path: str) -> str:
    """Return the path that a file would have if it were not compressed."""
    stem, dot, suffix = path.rpartition(".")
    return stem if dot + suffix in _CODECS else path


def members(system: Any, path: str) -> list[ListedFile]:
    """Return the files in an archive.

    Args:
        system: the file system.
        path: the path of the archive.

    Raises:
        ConfigurationError: the file is not an archive.
        OSError: the archive cannot be read.
    """
    found = []
    with system.open_input_file(path) as file, _archive(path, file) as archive:
        for member in archive:
            if member.isfile():
                name = member.name.removeprefix("./")
                found.append(ListedFile(f"{path}{_INSIDE}{name}", member.size, int(member.mtime * 1e9)))
    return found


def open_packed(open_file: Callable[[str], Any], path: str) -> Any:
    """Return a temporary file with the content of a packed file; closing the file removes it.

    Args:
        open_file: opens the file at a path for reading.
        path: the path of the packed file.

    Raises:
        FileNotFoundError: there is no such file or archive, or the archive has no such member.
        OSError: the file cannot be read, is damaged, or there is no space for its content.
    """
    unpacked = tempfile.TemporaryFile(prefix="kafkawire-")  # noqa: SIM115 - the caller closes it
    try:
        outer, mark, name = path.partition(_INSIDE)
        with open_file(outer) as file:
            if mark:
                with _archive(outer, file) as archive:
                    _unpack(_member(archive, name, path), path, unpacked)
            else:
                _unpack(file, path, unpacked)
        return pyarrow.PythonFile(unpacked, mode="r")
    except BaseException:
        unpacked.close()
        raise


def _archive(path: str, file: Any) -> tarfile.TarFile:
    try:
        return tarfile.open(fileobj=file, mode="r:*")
    except tarfile.TarError as error:
        raise ConfigurationError("path", path, f"not an archive: {error}") from None


def _member(archive: tarfile.TarFile, name: str, path: str) -> IO[bytes]:
    for member in archive:
        if member.isfile() and member.name.removeprefix("./") == name:
            content = archive.extractfile(member)
            if content is not None:
                return content
    raise FileNotFoundError(f"{path} is no longer in its archive")


def _unpack(content: Any, path: str, unpacked: IO[bytes]) -> None:
    codec = _CODECS.get("." + path.rpartition(".")[2])
    if codec is None:
        copyfileobj(content, unpacked)
        return
    with pyarrow.CompressedInputStream(content, codec) as stream:
        copyfileobj(stream, unpacked)
