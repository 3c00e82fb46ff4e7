"""The connection between commands and a cluster's supervisor: one line of JSON over loopback, and one as the answer.

The port and a secret are in `control.json`, which only the supervisor's user can read. A socket file would need no
secret, but its path is limited to 107 bytes. The answer is sent once the action is complete.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
from collections.abc import Awaitable, Callable
from typing import Final

from kafkawire.local_cluster.cluster_folder import ClusterError, ClusterFolder, replace_file

__all__ = ["ControlServer", "request_action"]

_HOST: Final = "127.0.0.1"

#: Requests are about a hundred bytes long.
_LINE_BYTES_MAX: Final = 4_096

#: A command sends its request as soon as it connects.
_REQUEST_SECONDS: Final = 5.0

#: Restarting a member takes at most as long as stopping and starting it; stopping all members takes at most as long as
#: stopping a broker and then ZooKeeper.
_ANSWER_SECONDS: Final = 180.0


class ControlServer:
    """The supervisor's side of the connection.

    Args:
        folder: the folder of the cluster.
        act: performs an action on a member (None for the whole cluster); a `ClusterError` is sent to the command.
    """

    def __init__(self, folder: ClusterFolder, act: Callable[[str, str | None], Awaitable[None]]) -> None:
        self._folder = folder
        self._act = act
        self._secret = secrets.token_hex()
        self._server: asyncio.Server | None = None
        self._answering: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen, and write `control.json`.

        Raises:
            OSError: the file cannot be written.
        """
        self._server = await asyncio.start_server(self._answer, _HOST, 0, limit=_LINE_BYTES_MAX)
        port = self._server.sockets[0].getsockname()[1]
        replace_file(self._folder.control_path, json.dumps({"port": port, "secret": self._secret}) + "\n", 0o600)

    async def close(self) -> None:
        """Remove `control.json`, answer pending requests, and stop listening; before `start`, do nothing."""
        if self._server is None:  # the file may belong to another supervisor
            return
        self._folder.control_path.unlink(missing_ok=True)
        self._server.close()
        if self._answering:
            await asyncio.wait(self._answering, timeout=_REQUEST_SECONDS)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "the server created a task"
        self._answering.add(task)
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                line = await reader.readline()
            error = await self._done(line)
            writer.write(json.dumps({"error": error}).encode() + b"\n")
            await writer.drain()
        except (OSError, TimeoutError, ValueError):  # the command has ended, or is not one of ours
            return
        finally:
            self._answering.discard(task)
            writer.close()

    async def _done(self, line: bytes) -> str | None:
        """Perform a request; return the error, or None.

        Raises:
            ValueError: the line is not a request, or does not contain the secret.
        """
        request = json.loads(line)
        if not isinstance(request, dict) or not secrets.compare_digest(str(request.get("secret")), self._secret):
            raise ValueError("expected a JSON object with the cluster's secret")
        try:
            await self._act(str(request["action"]), request["member"])
        except (ClusterError, OSError) as error:
            return str(error)
        return None


def request_action(folder: ClusterFolder, action: str, member: str | None) -> bool:
    """Ask the supervisor of a cluster to perform an action, and wait until it is complete.

    Args:
        folder: the folder of the cluster.
        action: its name.
        member: the name of the member; None for the whole cluster.

    Returns:
        Whether there is a supervisor that accepts requests.

    Raises:
        ClusterError: the supervisor refused, the action failed, or the supervisor ended in the meantime.
    """
    try:
        control = json.loads(folder.control_path.read_bytes())
        connection = socket.create_connection((_HOST, control["port"]), _REQUEST_SECONDS)
    except (FileNotFoundError, ConnectionRefusedError):
        return False
    request = {"secret": control["secret"], "action": action, "member": member}
    with connection, connection.makefile("rb") as answers:
        connection.settimeout(_ANSWER_SECONDS)
        try:
            connection.sendall(json.dumps(request).encode() + b"\n")
            line = answers.readline(_LINE_BYTES_MAX)
        except OSError as error:
            raise ClusterError(f"the supervisor of {folder.path} is not responding: {error}") from error
    if not line:
        raise ClusterError(f"the supervisor of {folder.path} ended before it responded")
    failure = json.loads(line)["error"]
    if failure is not None:
        raise ClusterError(str(failure))
    return True
