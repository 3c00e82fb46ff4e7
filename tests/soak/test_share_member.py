"""A member of a share group writes down deliveries, acknowledgements and outcomes, and leaves on request.

Method: run a member on a broker until it has accepted three records; let a member without a broker end.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

from kafkawire import Admin, ConfigResourceType, Producer
from kafkawire.testing import Broker
from tools.soak.share_member import ENTRY, Event, ShareMember

RECORDS = 3


def test_what_happens_to_records_is_written_down(tmp_path: Path) -> None:
    async def prepare(bootstrap: str) -> None:
        async with Admin(bootstrap) as admin:
            configs = {"share.auto.offset.reset": "earliest"}
            await admin.incremental_alter_configs(ConfigResourceType.GROUP, "g", configs)
        async with Producer(bootstrap) as producer:
            await asyncio.gather(*(producer.send("t", b"v", partition=0) for _ in range(RECORDS)))

    file = tmp_path / "member"
    file.touch()
    with Broker() as broker:
        asyncio.run(prepare(broker.bootstrap))
        options = json.dumps({"group_id": "g"})
        command = [sys.executable, "-m", "tools.soak.share_member", broker.bootstrap, "t", str(file), "1", options]
        process = subprocess.Popen(command)
        deadline = time.monotonic() + 60
        while file.stat().st_size < 3 * RECORDS * ENTRY.size and time.monotonic() < deadline:
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    entries = sorted(
        (event, partition, offset, count) for partition, offset, event, count, _ in ENTRY.iter_unpack(file.read_bytes())
    )
    expected = [(event, 0, offset, 1) for event in (Event.DELIVERED, Event.ACCEPTED) for offset in range(RECORDS)]
    assert entries == [*expected, *((Event.ENDED, 0, offset, 1) for offset in range(RECORDS))]


def test_most_records_are_accepted() -> None:
    member = ShareMember(-1, Random(1))
    events = [member._event() for _ in range(10_000)]
    assert {*Event} - {Event.DELIVERED, Event.ENDED} < {*events}, "others are rejected, released, or forgotten (None)"
    assert events.count(Event.ACCEPTED) > 9_500
