"""The code in the README runs, and prints what its comments say.

Method: the Python blocks of the README are run as they stand, in a process of their own.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_code_runs() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 1
    result = subprocess.run([sys.executable, "-c", blocks[0]], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    stored, record, request = result.stdout.splitlines()
    assert stored.startswith("RecordMetadata(topic='greetings', partition=0, offset=0, timestamp_ms=")
    assert record == "greetings 0 b'en' b'hello' (('tone', b'friendly'),)"
    assert request == "HeartbeatRequest(group_id='g', generation_id=7, member_id='m')"
