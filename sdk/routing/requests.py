"""Requests and responses whose shape has changed between versions, and checks on responses.

Callers build all other requests themselves: the codec drops fields that a version does not have. The requests here
contain one item in older versions and a list in newer ones, so the version must be known first. The messages' field
tables show which version has which fields.
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
        metadata: the metadata that the response updates.
        request: the request to send.

    Attributes:
        has_epochs: whether the leader epochs in the response are reliable; brokers reject requests with an old epoch as
            fenced.
        invalidations: the metadata's number of invalidations when the request was last sent; the response may not
            reflect later ones.
    """

    def __init__(self, metadata: Metadata, request: messages.MetadataRequest) -> None:
        self._metadata = metadata
        self._request = request
        self.has_epochs = False
        self.invalidations = metadata.invalidations

    def __call__(self, versions: Versions) -> tuple[Message, int]:
        """Return the request to send and its version, given the versions that the broker supports."""
        version = versions.version_for(messages.MetadataRequest)
        self.has_epochs = version >= enums.METADATA_FIRST_WITH_RELIABLE_EPOCHS
        self.invalidations = self._metadata.invalidations
        return self._request, version

    def take(self, response: messages.MetadataResponse, now_ms: int) -> BrokerError | None:
        """Merge the response into the metadata; return why there was nothing to merge, or None if it was merged."""
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
        error_code: the code in a response.
        detail: the subject of the request, for the error message.
    """
    if error_code != tables.ErrorCode.NONE:
        raise BrokerError(error_code, detail)


def error_text(detail: str, message: str | None) -> str:
    """Return the text of an error: the subject of the request, and the broker's message if there is one.

    Args:
        detail: the subject of the request.
        message: the broker's message; None or empty if there is none.
    """
    return f"{detail}: {message}" if message else detail


def lacking(response: Message, what: str) -> RemoteProtocolError:
    """Return the error for a response that lacks a requested item.

    Args:
        response: the response.
        what: the missing item, with its name.
    """
    api = response.SCHEMA.name.removesuffix("Response")
    return RemoteProtocolError(f"the response to {api} lacks {what}")


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partition numbers of each topic, in the given order."""
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
    """Return the node id, host and port of the coordinator.

    Args:
        response: the response to the lookup of one key.
        detail: the key that was looked up, for the error message.

    Raises:
        BrokerError: no coordinator is available.
        RemoteProtocolError: the response lacks the address.
    """
    found = response.coordinators[0] if response.coordinators else response
    check(found.error_code, error_text(detail, found.error_message))
    if not found.host:
        raise lacking(response, detail)
    return found.node_id, found.host, found.port
