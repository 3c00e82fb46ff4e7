"""Send requests on a connection, and await their responses in tests; the product's router uses callbacks instead."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.transport.connection import BrokerConnection

__all__ = ["response_to", "send_request"]

Response = TypeVar("Response", bound=Message)


def send_request(
    connection: BrokerConnection,
    request: Message,
    response: type[Response],
    version: int | None = None,
    timeout_ms: int | None = None,
) -> asyncio.Future[Response]:
    """Write a request immediately, and return a future for its response; see `BrokerConnection.begin`."""
    future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()

    def settle(answer: Message | None, error: KafkaWireError | None) -> None:
        if future.done():  # the awaiting task was cancelled
            return
        if error is not None:
            future.set_exception(error)
        else:
            assert isinstance(answer, response)
            future.set_result(answer)

    connection.begin(request, settle, version, timeout_ms)
    return future


async def response_to(
    connection: BrokerConnection,
    request: Message,
    response: type[Response],
    version: int | None = None,
    timeout_ms: int | None = None,
) -> Response:
    """Write a request once the write buffer has room, and return its response; see `send_request`."""
    await connection.drain()
    return await send_request(connection, request, response, version, timeout_ms)
