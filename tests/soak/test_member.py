"""A member logs its records before it requests more, and leaves on request."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

from kafkawire import Producer
from kafkawire.testing import Broker
from tools.soak.member import ASSIGNED, ENTRY


def test_what_is_handed_out_is_written_down(tmp_path: Path) -> None:
    async def produce(bootstrap: str) -> None:
        async with Producer(bootstrap) as producer:
            await asyncio.gather(*(producer.send("t", b"v", partition=0) for _ in range(3)))

    file = tmp_path / "member"
    file.touch()
    with Broker() as broker:
        asyncio.run(produce(broker.bootstrap))
        options = json.dumps({"group_id": "g", "auto_offset_reset": "earliest"})
        command = [sys.executable, "-m", "tools.soak.member", broker.bootstrap, "t", str(file), options]
        process = subprocess.Popen(command)
        deadline = time.monotonic() + 60
        while file.stat().st_size < 4 * ENTRY.size and time.monotonic() < deadline:
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    entries = [(partition, offset) for partition, offset, _ in ENTRY.iter_unpack(file.read_bytes())]
    assert entries == [(0, ASSIGNED), (0, 0), (0, 1), (0, 2)]
