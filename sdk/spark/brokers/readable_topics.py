"""Check which topics a client may read, once and before tasks fail.

Source: `MetadataRequest`, `AuthHelper.authorizedOperations` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Collection

from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import AclOperation
from kafkawire.sdk.routing.call import ANY_BROKER
from kafkawire.sdk.routing.requests import carries
from kafkawire.sdk.spark.blocking_client import BlockingClient
from kafkawire.sdk.spark.brokers.clients import ClientSettings
from kafkawire.sdk.transport.driver_interface import Versions
from kafkawire.sdk.transport.waiting import result_of

__all__ = ["unreadable"]

_READ = 1 << AclOperation.READ
_FLAG = "include_topic_authorized_operations"
_UNKNOWN = MetadataResponse.MetadataResponseTopic().topic_authorized_operations


def unreadable(client: ClientSettings, topics: Collection[str]) -> list[str]:
    """Return the topics that a client may describe but not read; brokers before Kafka 2.3 do not report this.

    Args:
        client: the client options.
        topics: the names of existing topics.

    Raises:
        KafkaWireError: a request to the brokers failed.
    """
    with _Asking(client.core, client.api_timeout_ms) as asking:
        return asking.unreadable(topics)


class _Asking(BlockingClient):
    def unreadable(self, topics: Collection[str]) -> list[str]:
        """Return the topics that the client may not read, sorted."""
        response: MetadataResponse = result_of(self._asked, topics)
        return sorted(
            topic.name
            for topic in response.topics
            if topic.name is not None
            and topic.topic_authorized_operations != _UNKNOWN
            and not topic.topic_authorized_operations & _READ
        )

    async def _asked(self, topics: Collection[str]) -> MetadataResponse:
        return await self._core.perform(self._ask(topics))

    async def _ask(self, topics: Collection[str]) -> MetadataResponse:
        names = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]

        def question(versions: Versions) -> tuple[Message, int]:
            version = versions.version_for(MetadataRequest)
            has_flag = carries(MetadataRequest, _FLAG, version)
            request = MetadataRequest(
                names, allow_auto_topic_creation=False, include_topic_authorized_operations=has_flag
            )
            return request, version

        return await self._core.operations.request(ANY_BROKER, question, MetadataResponse)
