"""A bound process ends with its parent, even if the parent is killed; otherwise it behaves like the program itself.

Method: let a parent start a bound program that holds one end of a pipe; the pipe closes when the program ends.
"""

from __future__ import annotations

import os
import subprocess
import sys

from kafkawire.local_cluster import bound_process
from tests.needs import LINUX

BOUND = [sys.executable, "-I", "-S", bound_process.__file__]

#: Start a bound program that waits for input that never comes, report that it is running, and wait as well.
PARENT = """
import os, subprocess, sys
child = subprocess.Popen([*sys.argv[1:5], str(os.getpid()), sys.executable, "-c", "print(1, flush=True); input()"],
    stdin=subprocess.PIPE)
child.wait()
"""


@LINUX.mark
def test_it_ends_with_a_killed_parent() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, *BOUND], stdout=subprocess.PIPE)
    with parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"1\n"
        parent.kill()
        assert parent.stdout.read() == b"", "both processes must have ended and closed the pipe"


@LINUX.mark
def test_it_does_not_run_once_its_parent_is_gone() -> None:
    other = os.getppid()  # this process is not the parent of the bound program
    ran = subprocess.run([*BOUND, str(other), sys.executable, "-c", "print(1)"], capture_output=True, check=True)
    assert ran.stdout == b""


@LINUX.mark
def test_it_takes_the_place_of_the_process() -> None:
    program = "import os, sys; print(os.getpid()); sys.exit(3)"
    with subprocess.Popen([*BOUND, str(os.getpid()), sys.executable, "-c", program], stdout=subprocess.PIPE) as bound:
        output, _ = bound.communicate()
    assert (int(output), bound.returncode) == (bound.pid, 3)
