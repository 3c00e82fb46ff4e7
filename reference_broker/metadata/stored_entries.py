"""Named values in a file of a single broker, changed in order and one change at a time.

    dynamic-configs     broker/1/log.retention.ms=5000, one line for each value

The whole file is read at startup, and replaced durably by every change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from kafkawire.reference_broker.storage.checkpoints import read_properties
from kafkawire.reference_broker.storage.directory.log_directory import LogDirectory
from kafkawire.reference_broker.storage.disk.disk import replace_file
from kafkawire.reference_broker.storage.services import storage_error
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.secret import revealed
from kafkawire.sdk.storage.properties import properties_content

__all__ = ["FILE_BYTES_MAX", "StoredEntries", "quoted", "unquoted"]

_log = logging.getLogger("kafkawire.broker")

#: Maximum size of a file, all of which is written on every change, and read at every startup.
FILE_BYTES_MAX: Final = 4 * 1024 * 1024


class StoredEntries:
    """The entries of a file.

    Args:
        directory: the directory that holds the file.
        name: the name of the file.
        what: what the file holds, in the plural, for errors: `configurations`.
        is_private: whether only the user who runs the broker may read the file.

    Raises:
        DamagedFile: the file is not a properties file.

    Attributes:
        entries: the entries on disk; replaced by every change.
    """

    def __init__(self, directory: LogDirectory, name: str, what: str, *, is_private: bool = False) -> None:
        self._directory = directory
        self._name = name
        self._what = what
        self._is_private = is_private
        self.entries: Mapping[str, str] = read_properties(directory.services.disk, name)

    @property
    def path(self) -> str:
        """The path of the file, for errors."""
        return self._directory.services.disk.describe(self._name)

    def change(
        self, revise: Callable[[Mapping[str, str]], Mapping[str, str]], done: Callable[[BrokerError | None], None]
    ) -> None:
        """Change the entries.

        Args:
            revise: called when its turn comes, with the current entries; returns the new ones, or raises `BrokerError`.
            done: called with None once the new entries are durable and are those of `entries`; or with an error: that
                of `revise`, POLICY_VIOLATION if the file would become too large, or KAFKA_STORAGE_ERROR.
        """
        revised: Mapping[str, str] = {}

        def prepare() -> Callable[[], None]:
            nonlocal revised
            revised = dict(revise(self.entries))
            content = properties_content({name: revealed(value) for name, value in revised.items()})
            if len(content) > FILE_BYTES_MAX:
                reason = f"All {self._what} together would take more than {FILE_BYTES_MAX} bytes."
                raise BrokerError(ErrorCode.POLICY_VIOLATION, reason)
            disk, is_private = self._directory.services.disk, self._is_private
            return lambda: replace_file(disk, self._name, content, is_private=is_private)

        def written(error: Exception | None) -> None:
            if isinstance(error, BrokerError):
                done(error)
            elif error is not None:
                _log.error("%s cannot be written: %s", self.path, error)
                done(storage_error(error))
            else:
                self.entries = revised
                done(None)

        self._directory.queue.do(prepare, written)


def quoted(name: str) -> str:
    """Return a name with its slashes quoted, for use as a part of an entry's name."""
    return name.replace("%", "%25").replace("/", "%2F")


def unquoted(name: str) -> str:
    """Return the name that `quoted` has quoted."""
    return name.replace("%2F", "/").replace("%25", "%")
