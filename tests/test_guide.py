"""Every program in the user guide runs, and does what the page says.

Method: the Python blocks of a page, in order, are one program; it runs in a process of its own beside a broker, with
warnings as errors. Blocks that begin with the name of a file are files of a test suite, which pytest runs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.guide import GUIDE, TRANSACTIONS_GIVEN, TRANSACTIONS_THEN, blocks, run

PAGES = sorted(path.stem for path in GUIDE.glob("*.md"))

#: What a page takes as given, before its first block.
SERVERS = """
from kafkawire.testing import Broker
broker = Broker()
broker.start()
servers = broker.bootstrap
"""
GIVEN = {
    "restarts": SERVERS
    + """
import os, signal
from kafkawire.sync import Consumer, Producer
with Producer(servers) as producer:
    producer.send_many("orders", [b"1", b"2", b"3"])

def handle(record):
    if record.value == b"3":
        os.kill(os.getpid(), signal.SIGTERM)
    return b"invoice " + record.value
""",
    "transactions": SERVERS + TRANSACTIONS_GIVEN,
}

#: What must be true after its last block.
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
from kafkawire.sync import Admin, Consumer
with Consumer(servers, "invoices", auto_offset_reset="earliest") as consumer:
    found = [record.value for record in consumer.records(stop_at_end=True)]
    assert found == [b"invoice 1", b"invoice 2", b"invoice 3"], found
with Admin(servers) as admin:
    assert [offset.offset for offset in admin.list_group_offsets("billing").values()] == [3]
""",
    "transactions": TRANSACTIONS_THEN,
}


@pytest.mark.parametrize("page", [page for page in PAGES if page not in ("README", "testing")])
def test_the_programs_run(page: str, tmp_path: Path) -> None:
    given = GIVEN.get(page, SERVERS)
    assert blocks(page)
    (tmp_path / "program.py").write_text("\n".join([given, *blocks(page), THEN.get(page, ""), "broker.close()"]))
    run("program.py", folder=tmp_path)


def test_the_test_suite_passes(tmp_path: Path) -> None:
    for block in blocks("testing"):
        name, _, text = block.partition("\n")
        (tmp_path / name.removeprefix("# ")).write_text(text)
    run("-m", "pytest", "-q", "-p", "no:cacheprovider", folder=tmp_path)


def test_no_other_blocks() -> None:
    """A fence of another kind would be a program that nobody runs."""
    for page in PAGES:
        text = (GUIDE / f"{page}.md").read_text("utf-8")
        assert text.count("```") == 2 * len(blocks(page)), page
