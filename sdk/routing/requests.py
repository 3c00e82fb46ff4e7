"""Requests and responses whose shape changed between versions, and what a response must name.

Callers build all other requests themselves: the codec drops fields that a version does not carry. The requests here
hold one item in older versions and a list in newer ones, so the version must be known first. Which version carries what
is in the field tables of the messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kafkawire.sdk.errors import BrokerError, RemoteProtocolError
from kafkawire.sdk.protocol import messages, tables
from kafkawire.sdk.protocol.tables import enums
from kafkawire.sdk.routing.partitions import TopicPartition

if TYPE_CHECKING:
    from kafkawire.sdk.protocol.schema import Message
    from kafkawire.sdk.routing.metadata import Metadata
    from kafkawire.sdk.transport.driver_interface import Versions

__all__ = [
    "MetadataQuestion",
    "by_topic",
    "carries",
    "check",
    "coordinator",
    "error_text",
    "find_coordinator",
    "lacking",
]


class MetadataQuestion:
    """A Metadata request in the newest version that the broker knows.

    Args:
        metadata: what its answer is for.
        request: to be sent.

    Attributes:
        has_epochs: whether the leader epochs of the response can be relied upon; requests that name an old one are
            refused as fenced.
        invalidations: those of the metadata when it was sent last, which its answer may not know of yet.
    """

    def __init__(self, metadata: Metadata, request: messages.MetadataRequest) -> None:
        self._metadata = metadata
        self._request = request
        self.has_epochs = False
        self.invalidations = metadata.invalidations

    def __call__(self, versions: Versions) -> tuple[Message, int]:
        """Return the request and its version, given what the broker speaks: it is being sent."""
        version = versions.version_for(messages.MetadataRequest)
        self.has_epochs = version >= enums.METADATA_FIRST_WITH_RELIABLE_EPOCHS
        self.invalidations = self._metadata.invalidations
        return self._request, version

    def take(self, response: messages.MetadataResponse, now_ms: int) -> BrokerError | None:
        """Merge the answer into the metadata; return why there was nothing to merge, None if there was."""
        return self._metadata.update(
            response,
            now_ms,
            is_complete=self._request.topics is None,
            has_epochs=self.has_epochs,
            invalidations=self.invalidations,
        )


def carries(structure: type[Message], field_name: str, version: int) -> bool:
    """Return whether a structure has a field in a version."""
    return version in next(field.versions for field in structure.FIELDS if field.name == field_name)


def check(error_code: int, detail: str) -> None:
    """Raise `BrokerError` unless the code is NONE.

    Args:
        error_code: from a response.
        detail: what was asked, for the text of the error.
    """
    if error_code != tables.ErrorCode.NONE:
        raise BrokerError(error_code, detail)


def error_text(detail: str, message: str | None) -> str:
    """Return the text of an error: what was asked, and the broker's message if it has one.

    Args:
        detail: what was asked.
        message: the broker's; None or empty if it gave none.
    """
    return f"{detail}: {message}" if message else detail


def lacking(response: Message, what: str) -> RemoteProtocolError:
    """Return the error of a response that leaves out what was asked for.

    Args:
        response: to the request.
        what: it lacks, with its name.
    """
    api = response.SCHEMA.name.removesuffix("Response")
    return RemoteProtocolError(f"the response to {api} lacks {what}")


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partition numbers of each topic, in the order given."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics


def find_coordinator(
    key: str, version: int, kind: enums.CoordinatorType = enums.CoordinatorType.GROUP
) -> messages.FindCoordinatorRequest:
    """Return the request that looks up the coordinator of a group or a transactional id."""
    if carries(messages.FindCoordinatorRequest, "coordinator_keys", version):
        return messages.FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
    return messages.FindCoordinatorRequest(key=key, key_type=kind)


def coordinator(response: messages.FindCoordinatorResponse, detail: str) -> tuple[int, str, int]:
    """Return node id, host and port of the coordinator.

    Args:
        response: to the look-up of one key.
        detail: what was looked up, for the text of the error.

    Raises:
        BrokerError: there is none.
        RemoteProtocolError: the response does not say where it listens.
    """
    found = response.coordinators[0] if response.coordinators else response
    check(found.error_code, error_text(detail, found.error_message))
    if not found.host:
        raise lacking(response, detail)
    return found.node_id, found.host, found.port
