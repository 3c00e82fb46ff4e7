"""A command's request is performed exactly once, its error is returned, and requests without the secret are ignored.

Method: run a server on an event loop, and send it requests from a thread as if from another process.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkawire.local_cluster import control as module
from kafkawire.local_cluster.cluster_folder import ClusterError, ClusterFolder
from kafkawire.local_cluster.control import ControlServer, request_action

PATIENCE_SECONDS = 30


def serve(folder: ClusterFolder, ask: Callable[[], object]) -> list[tuple[str, str | None]]:
    """Serve while `ask` runs in a thread, and return the actions that were performed."""
    taken: list[tuple[str, str | None]] = []

    async def act(action: str, member: str | None) -> None:
        taken.append((action, member))
        if action == "fail":
            raise ClusterError("it cannot")

    async def whole() -> None:
        server = ControlServer(folder, act)
        await server.close()  # before startup, there is nothing to close
        await server.start()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await asyncio.to_thread(ask)
        finally:
            await server.close()

    asyncio.run(whole())
    return taken


def test_actions_and_errors(tmp_path: Path) -> None:
    folder = ClusterFolder(tmp_path)

    def ask() -> None:
        assert folder.control_path.stat().st_mode & 0o777 == 0o600
        assert request_action(folder, "kill", "1")
        assert request_action(folder, "stop", None)
        with pytest.raises(ClusterError, match=r"^it cannot$"):
            request_action(folder, "fail", "2")

    assert serve(folder, ask) == [("kill", "1"), ("stop", None), ("fail", "2")]
    assert not folder.control_path.exists()


def test_without_a_supervisor(tmp_path: Path) -> None:
    folder = ClusterFolder(tmp_path)
    assert not request_action(folder, "kill", "1")
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        folder.control_path.write_text(json.dumps({"port": unheard.getsockname()[1], "secret": ""}))
        assert not request_action(folder, "kill", "1")


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"[]\n",
        b"{}\n",
        b'{"secret": "guessed", "action": "kill", "member": "1"}\n',
        b"x" * 10_000 + b"\n",
    ],
    ids=["empty", "list", "nothing", "wrong-secret", "long"],
)
def test_others_get_no_answer(tmp_path: Path, line: bytes) -> None:
    folder = ClusterFolder(tmp_path)

    def ask() -> None:
        port = json.loads(folder.control_path.read_bytes())["port"]
        with socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as connection:
            connection.sendall(line)
            try:
                assert connection.recv(100) == b""
            except ConnectionResetError:  # the server closed the connection with bytes unread
                return

    assert serve(folder, ask) == []


@pytest.mark.parametrize("answer", [b"", b"wait"], ids=["closed", "silent"])
def test_a_supervisor_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes) -> None:
    monkeypatch.setattr(module, "_ANSWER_SECONDS", 0.05)
    folder = ClusterFolder(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as server:
        folder.control_path.write_text(json.dumps({"port": server.getsockname()[1], "secret": "s"}))
        if answer:
            with pytest.raises(ClusterError, match="is not responding: timed out"):
                request_action(folder, "kill", "1")
            return

        async def ask() -> None:
            asked = asyncio.create_task(asyncio.to_thread(request_action, folder, "kill", "1"))
            connection, _ = await asyncio.to_thread(server.accept)
            connection.recv(1_000)
            connection.close()
            with pytest.raises(ClusterError, match="ended before it responded"):
                await asked

        monkeypatch.setattr(module, "_ANSWER_SECONDS", PATIENCE_SECONDS)
        asyncio.run(ask())
