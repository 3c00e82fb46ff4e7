"""A small HTTP server on the broker's event loop: one request per connection, read strictly, answered in turns.

Connections, their sizes and their durations are limited, and a response is made in turns between which Kafka's requests
are handled, so that neither hostile clients nor large responses hold up the broker. There is no TLS and no login.

Source: RFC 9110, RFC 9112.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable
from typing import Final, TypeVar

from kafkawire.reference_broker.network.http_requests import (
    HEAD_BYTES_MAX,
    HttpError,
    HttpRequest,
    HttpResponse,
    error_response,
    parse_head,
    response_head,
    too_long,
)
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.clock import monotonic_ms, monotonic_ns
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.transport.wire import Address

__all__ = ["CONNECTIONS_MAX", "TIMEOUT_SECONDS", "TURN_NS", "HttpServer", "in_turns"]

_log = logging.getLogger("kafkawire.broker")

R = TypeVar("R")

#: The maximum number of connections; a scrape takes one for a fraction of a second.
CONNECTIONS_MAX: Final = 16

#: How long a connection may take, from its start to its end. Prometheus itself gives up after ten seconds by default.
TIMEOUT_SECONDS: Final = 10.0

#: How long a response is worked on before requests have a turn.
TURN_NS: Final = 1_000_000


async def in_turns(work: Work[R], turn_ns: int = TURN_NS) -> R:
    """Run work, and let the event loop do other work after each turn; return the result.

    Args:
        work: yields often.
        turn_ns: the duration of a turn.
    """
    until_ns = monotonic_ns() + turn_ns
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: R = end.value
            return result
        if monotonic_ns() >= until_ns:
            await asyncio.sleep(0)
            until_ns = monotonic_ns() + turn_ns


class HttpServer:
    """The HTTP server of one broker.

    Args:
        listen: the address to listen on.
        answer: returns the work of answering a request, which may raise `HttpError`.
    """

    def __init__(self, listen: Address, answer: Callable[[HttpRequest], Work[HttpResponse]]) -> None:
        self._listen = listen
        self._answer = answer
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._lines = LogLimit(_log)

    @property
    def address(self) -> Address | None:
        """The address, with the actual port; None while the server does not run."""
        return None if self._server is None else self._listen

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the address is in use, or does not belong to this machine.
        """
        family = socket.AF_INET6 if ":" in self._listen.host else socket.AF_INET
        listening = socket.create_server(self._listen, family=family, backlog=CONNECTIONS_MAX)
        listening.setblocking(False)
        self._server = await asyncio.start_server(self._accept, sock=listening, limit=HEAD_BYTES_MAX)
        # Keep the actual port, so that a restarted broker is found where it was.
        self._listen = self._listen._replace(port=listening.getsockname()[1])
        _log.info("listening for HTTP on %s", self._listen)

    async def stop(self) -> None:
        """Stop listening, and close all connections; may be called more than once."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        tasks = list(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Begin a connection; asyncio calls this for each."""
        if self._server is None or len(self._connections) >= CONNECTIONS_MAX:
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._connection(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request; the connection ends with an abort if that takes too long."""
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                response = await self._response(reader)
                if response:
                    writer.write(response)
                    await writer.drain()
                    writer.close()
                    await writer.wait_closed()
        except (OSError, TimeoutError):
            pass  # the client has gone, or does not send or read
        except Exception:
            self._lines.exception("http", monotonic_ms(), "could not answer an HTTP request")
        finally:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                writer.transport.abort()

    async def _response(self, reader: asyncio.StreamReader) -> bytes:
        """Read a request and return the response; empty if the client has closed the connection."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return b""
        except asyncio.LimitOverrunError:
            return error_response(too_long())
        try:
            request = parse_head(head)
            status, content_type, content = await in_turns(self._answer(request))
        except HttpError as error:
            return error_response(error)
        head = response_head(status, content_type, len(content))
        return head if request.method == "HEAD" else head + content
