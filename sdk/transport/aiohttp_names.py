"""Look up names for aiohttp on the clients' threads; aiohttp's own resolver would use asyncio's default executor."""

from __future__ import annotations

import socket
from functools import partial
from typing import TYPE_CHECKING

from kafkawire.sdk.transport.sockets import look_up
from kafkawire.sdk.transport.threads import in_thread

if TYPE_CHECKING:
    from aiohttp.abc import AbstractResolver

__all__ = ["name_resolver"]


def name_resolver() -> AbstractResolver:
    """Return the resolver of a `TCPConnector`."""
    from aiohttp.abc import AbstractResolver, ResolveResult  # an optional package

    class NameResolver(AbstractResolver):
        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
        ) -> list[ResolveResult]:
            found = await in_thread(partial(look_up, host, port), ("name", host, port))
            return [
                ResolveResult(
                    hostname=host,
                    host=str(target[0]),
                    port=port,
                    family=kind,
                    proto=protocol,
                    flags=socket.AI_NUMERICHOST,
                )
                for kind, _, protocol, _, target in found
                if family in (socket.AF_UNSPEC, kind)
            ]

        async def close(self) -> None:
            """Do nothing; there is nothing to release."""

    return NameResolver()
