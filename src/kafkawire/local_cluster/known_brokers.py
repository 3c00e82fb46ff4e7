"""Find out which brokers a broker knows, since a new one accepts requests before the controller has announced it.

Until then, clients cannot find the new broker, and no replica can be placed on it.
"""

from __future__ import annotations

import asyncio
from typing import Final, TypeVar

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.transport.connection import BrokerConnection, ConnectionSettings
from kafkawire.sdk.transport.stream import TcpNetwork
from kafkawire.sdk.transport.wire import Address

__all__ = ["ANSWER_MS", "answer_of", "known_brokers"]

#: How long to wait for an answer. A paused broker, or one that does not accept requests yet, does not answer.
ANSWER_MS: Final = 1_000
_SETTINGS: Final = ConnectionSettings("kafkawire-cluster", ANSWER_MS, ANSWER_MS)

Response = TypeVar("Response", bound=Message)


async def known_brokers(address: Address) -> frozenset[int]:
    """Return the ids of the brokers that a broker knows; none if it does not answer within `ANSWER_MS`.

    Args:
        address: where the broker listens.
    """
    try:
        connection = await BrokerConnection.open(TcpNetwork(), address, _SETTINGS)
    except KafkaWireError:
        return frozenset()
    try:
        answer = await answer_of(connection, MetadataRequest(topics=[]), MetadataResponse)
    finally:
        connection.close()
    return frozenset() if answer is None else frozenset(broker.node_id for broker in answer.brokers)


async def answer_of(connection: BrokerConnection, request: Message, response: type[Response]) -> Response | None:
    """Send a request and return the response; None if none arrives in time.

    Args:
        connection: the connection to the broker.
        request: the request.
        response: the type of the response.
    """
    answered: asyncio.Future[Message | None] = asyncio.get_running_loop().create_future()

    def settle(answer: Message | None, error: KafkaWireError | None) -> None:
        if not answered.done():
            answered.set_result(answer)

    try:
        connection.begin(request, settle)
    except KafkaWireError:  # the connection ended, or the broker supports no version of the request
        return None
    answer = await answered
    return answer if isinstance(answer, response) else None
