"""The program of the guide's page on transactions runs beside Apache Kafka; tests/test_guide.py runs the other pages.

Method: `handle` fails once, inside a transaction, with the error of a record that was not stored, and stops the program
at the last record. Each record must then have been invoiced exactly once, and its offset committed.
"""

from __future__ import annotations

from pathlib import Path

from tests.guide import blocks, run
from tests.kafka.servers import Server

GIVEN = """
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

THEN = """
assert handled == [b"1", b"2", b"1", b"2", b"3"], handled
with Reader(servers, "invoices", auto_offset_reset="earliest", isolation_level="read_committed") as reader:
    found = [next(iter(reader)).value for _ in range(3)]  # a commit is acknowledged before readers see it
assert found == [b"invoice 1", b"invoice 2", b"invoice 3"], found
with Admin(servers) as admin:
    assert [place.offset for place in admin.list_group_offsets("billing").values()] == [3]
"""


def test_the_page_on_transactions(either: Server, tmp_path: Path) -> None:
    program = [f"servers = {either.bootstrap!r}", GIVEN, *blocks("transactions"), THEN]
    (tmp_path / "program.py").write_text("\n".join(program))
    run("program.py", folder=tmp_path)
