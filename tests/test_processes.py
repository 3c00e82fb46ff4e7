"""A child process's peak memory and CPU time can be read from outside, the CPU time even after the child has exited."""

import os
import subprocess
import sys

import pytest

from tools.processes import cpu_seconds, peak_memory_mb, status_kb

PROGRAM = """
content = bytes(64 << 20)
while __import__("time").process_time() < 0.5:
    content = content[:1] * len(content)
del content
print(flush=True)
input()
"""


def test_child() -> None:
    before = cpu_seconds()
    spent = 0.4  # out of 0.5 s; the kernel counts in hundredths, and rounds each number down
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert max(peak_memory_mb().values()) > 64
        assert status_kb(child.pid, "VmHWM") > status_kb(child.pid, "VmRSS") + 32 * 1024
        assert cpu_seconds() - before >= spent
        assert cpu_seconds(child.pid) - before >= spent
    assert cpu_seconds() - before >= spent
    with pytest.raises(OSError, match="No such file"):
        status_kb(child.pid, "VmRSS")
    with pytest.raises(KeyError):
        status_kb(os.getpid(), "VmNone")
