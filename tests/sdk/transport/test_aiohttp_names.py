"""aiohttp looks up names on the clients' own threads, however busy the default executor is.

Method: request a page from a minimal HTTP server, addressed by name.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

aiohttp = pytest.importorskip("aiohttp")


def test_a_name() -> None:
    from kafkawire.sdk.transport.aiohttp_names import name_resolver

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    async def run() -> None:
        ended = threading.Event()
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        busy = asyncio.ensure_future(asyncio.to_thread(ended.wait))
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            connector = aiohttp.TCPConnector(resolver=name_resolver())
            async with aiohttp.ClientSession(connector=connector) as session:
                assert (await session.get(f"http://localhost:{port}/")).status == 204
        ended.set()
        await busy

    asyncio.run(run())


def test_what_is_found() -> None:
    from kafkawire.sdk.transport.aiohttp_names import name_resolver

    async def run() -> None:
        resolver = name_resolver()
        (found,) = await resolver.resolve("127.0.0.1", 80)
        assert (found["hostname"], found["host"], found["port"]) == ("127.0.0.1", "127.0.0.1", 80)
        assert found["family"] == socket.AF_INET
        assert not await resolver.resolve("127.0.0.1", 80, socket.AF_INET6)
        with pytest.raises(OSError, match=r"."):
            await resolver.resolve("no-such-host.invalid")
        await resolver.close()

    asyncio.run(run())
