"""The programs in the documentation: each page's setup, its blocks, and the checks that follow.

The Python blocks of a page, in order, form one program.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

__all__ = [
    "FRAGMENTS",
    "PAGES",
    "SHARE_GROUPS_GIVEN",
    "SHARE_GROUPS_THEN",
    "TRANSACTIONS_GIVEN",
    "TRANSACTIONS_THEN",
    "blocks",
    "fenced",
    "files",
    "program",
    "run",
    "section",
]

ROOT = Path(__file__).parents[1]

_BLOCK = re.compile(r"^ *```python\n(.*?)^ *```", re.DOTALL | re.MULTILINE)

#: The first line of a block that is a file of its own.
_NAMED = re.compile(r"# (\w+\.py)\n")

#: The pages with programs, keyed by page name without the folder.
PAGES = {
    path.stem: path for path in sorted((ROOT / "docs").rglob("*.md")) if _BLOCK.search(path.read_text("utf-8"))
} | {"README": ROOT / "README.md"}

#: Pages whose blocks are parts of a hypothetical change to this tree, and therefore cannot run.
FRAGMENTS = {"add-a-compression", "add-a-field-to-a-client-state-machine", "add-an-option"}

#: The setup before a page's first block, unless `GIVEN` has one for that page.
SERVERS = """
from kafkawire.testing import Broker
broker = Broker()
broker.start()
servers = broker.bootstrap
"""

#: The setup for the program on the transactions page. `handle` fails once, inside a transaction, with the error for a
#: record that was not stored, and stops the program at the last record.
TRANSACTIONS_GIVEN = """
from kafkawire import Record
from kafkawire.sync import Admin, Consumer as Reader, Producer as Writer
with Admin(servers) as admin:
    admin.create_topics(["orders", "invoices"])
with Writer(servers) as writer:
    writer.send_many("orders", [b"1", b"2", b"3"], partition=0)

handled: list[bytes | None] = []

def handle(record: Record) -> bytes:
    handled.append(record.value)
    if handled == [b"1", b"2"]:
        raise TransactionAborted("a record was not stored")
    if record.value == b"3":
        stopped.set()
    return b"invoice " + (record.value or b"")
"""

#: The check after that program: each record must have been invoiced exactly once, and its offset committed.
TRANSACTIONS_THEN = """
assert handled == [b"1", b"2", b"1", b"2", b"3"], handled
with Reader(servers, "invoices", auto_offset_reset="earliest", isolation_level="read_committed") as reader:
    found = [next(iter(reader)).value for _ in range(3)]  # a commit is acknowledged before readers see it
assert found == [b"invoice 1", b"invoice 2", b"invoice 3"], found
with Admin(servers) as admin:
    assert [place.offset for place in admin.list_group_offsets("billing").values()] == [3]
"""

#: The setup for the program on the page about share groups; the value 3 is never valid.
SHARE_GROUPS_GIVEN = """
from kafkawire import Record
from kafkawire.sync import Admin as Setup, Producer as Writer
with Setup(servers) as setup:
    setup.create_topics("orders")
with Writer(servers) as writer:
    writer.send_many("orders", [b"%d" % number for number in range(1, 7)], partition=0)

handled: list[bytes | None] = []

def handle(record: Record) -> None:
    handled.append(record.value)
    if record.value == b"3" and len(handled) > 6:
        raise ValueError("never valid")
"""

#: The check after that program: each group must have handled each record once.
SHARE_GROUPS_THEN = """
from collections import Counter
assert Counter(handled) == Counter([b"1", b"2", b"3", b"4", b"5", b"6"] * 2), handled
"""

_SPARK = """
from pyspark.sql import DataFrame, SparkSession
spark: SparkSession = SparkSession.builder.getOrCreate()
raw: DataFrame = spark.table("raw")
orders: DataFrame = spark.table("orders")
changes: DataFrame = spark.table("changes")
password = "secret"
"""

GIVEN = {
    "README": "",
    "add-an-api-of-your-own": "",
    "add-an-api-to-the-broker": "",
    "observability": SERVERS
    + """
from kafkawire.sync import Consumer as Reader, Producer as Writer
producer = Writer(servers)
producer.start()
producer.send("orders", b"1").result()
consumer = Reader(servers, "orders", auto_offset_reset="earliest")
consumer.start()
assert next(iter(consumer)).value == b"1"
""",
    "restarts": SERVERS
    + """
import os
from kafkawire import Record
from kafkawire.sync import Consumer as Reader, Producer as Writer
with Writer(servers) as writer:
    writer.send_many("orders", [b"1", b"2", b"3"])

def handle(record: Record) -> bytes:
    if record.value == b"3":
        os.kill(os.getpid(), signal.SIGTERM)
    return b"invoice " + (record.value or b"")
""",
    "security": SERVERS
    + """
from os import environ
environ["KAFKA_PASSWORD"] = "secret"
""",
    "share_groups": SERVERS + SHARE_GROUPS_GIVEN,
    "transactions": SERVERS + TRANSACTIONS_GIVEN,
} | dict.fromkeys(("spark", "spark_audit", "spark_brokers", "spark_segments", "spark_writing"), _SPARK)

#: The checks after each page's last block.
THEN = {
    "delivery": """
from kafkawire.sync import Consumer
with Consumer(servers, "orders", auto_offset_reset="earliest") as consumer:
    assert sum(1 for _ in consumer.records(stop_at_end=True)) == 1 + 1_000 + 1_000 + 10_000 + 1
""",
    "commits": """
from kafkawire.sync import Admin
with Admin(servers) as admin:
    for group in ("audit", "ledger"):
        assert [offset.offset for offset in admin.list_group_offsets(group).values()] == [4], group
assert done == [b"1", b"2", b"3", b"4"]
""",
    "restarts": """
from kafkawire.sync import Admin
with Reader(servers, "invoices", auto_offset_reset="earliest") as reader:
    found = [record.value for record in reader.records(stop_at_end=True)]
    assert found == [b"invoice 1", b"invoice 2", b"invoice 3"], found
with Admin(servers) as admin:
    assert [offset.offset for offset in admin.list_group_offsets("billing").values()] == [3]
""",
    "observability": """
assert lag == 0
assert per_topic is not None
consumer.close()
producer.close()
""",
    "share_groups": SHARE_GROUPS_THEN,
    "transactions": TRANSACTIONS_THEN,
}


def blocks(page: str) -> list[str]:
    """Return the Python blocks of a page."""
    return _BLOCK.findall(PAGES[page].read_text("utf-8"))


def program(page: str) -> str:
    """Return a page's program, between its setup and its checks; blocks that are files of their own are left out."""
    parts = (block for block in blocks(page) if _NAMED.match(block) is None)
    return "\n".join([GIVEN.get(page, SERVERS), *parts, THEN.get(page, "")])


def files(page: str) -> dict[str, str]:
    """Return the files on a page, keyed by name: the blocks that begin with one."""
    named = ((_NAMED.match(block), block) for block in blocks(page))
    return {found[1]: block[found.end() :] for found, block in named if found is not None}


def section(page: str, title: str) -> str:
    """Return the text of a section of a page."""
    text = PAGES[page].read_text("utf-8")
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def fenced(kind: str, text: str) -> list[str]:
    """Return the blocks of another kind than Python, such as `sh`."""
    return re.findall(rf"^```{kind}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def run(*arguments: str, folder: Path) -> str:
    """Run Python with warnings as errors, and return its output."""
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        cwd=folder,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
