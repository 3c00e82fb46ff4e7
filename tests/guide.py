"""The programs of the guide, and how they are run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

__all__ = ["GUIDE", "TRANSACTIONS_GIVEN", "TRANSACTIONS_THEN", "blocks", "run"]

GUIDE = Path(__file__).parents[1] / "docs" / "guide"

#: What comes before the program of the page on transactions. `handle` fails once, inside a transaction, with the error
#: of a record that was not stored, and stops the program at the last record.
TRANSACTIONS_GIVEN = """
from kafkawire.sync import Admin, Consumer as Reader, Producer as Writer
with Admin(servers) as admin:
    admin.create_topics(["orders", "invoices"])
with Writer(servers) as writer:
    writer.send_many("orders", [b"1", b"2", b"3"], partition=0)

handled = []

def handle(record):
    handled.append(record.value)
    if handled == [b"1", b"2"]:
        raise TransactionAborted("a record was not stored")
    if record.value == b"3":
        stopped.set()
    return b"invoice " + record.value
"""

#: What comes after it: each record was invoiced exactly once, and its offset committed.
TRANSACTIONS_THEN = """
assert handled == [b"1", b"2", b"1", b"2", b"3"], handled
with Reader(servers, "invoices", auto_offset_reset="earliest", isolation_level="read_committed") as reader:
    found = [next(iter(reader)).value for _ in range(3)]  # a commit is acknowledged before readers see it
assert found == [b"invoice 1", b"invoice 2", b"invoice 3"], found
with Admin(servers) as admin:
    assert [place.offset for place in admin.list_group_offsets("billing").values()] == [3]
"""


def blocks(page: str) -> list[str]:
    """Return the Python blocks of a page."""
    return re.findall(r"^```python\n(.*?)^```", (GUIDE / f"{page}.md").read_text("utf-8"), re.DOTALL | re.MULTILINE)


def run(*arguments: str, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        cwd=folder,
    )
    assert done.returncode == 0, done.stdout + done.stderr
