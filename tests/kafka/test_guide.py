"""The program on the guide's transactions page runs on Apache Kafka.

Method: proceed as in tests/test_guide.py, which runs the programs of all pages on the reference broker.
"""

from __future__ import annotations

from pathlib import Path

from tests.guide import TRANSACTIONS_GIVEN, TRANSACTIONS_THEN, blocks, run
from tests.kafka.servers import Server


def test_the_page_on_transactions(kafka: Server, tmp_path: Path) -> None:
    program = [f"servers = {kafka.bootstrap!r}", TRANSACTIONS_GIVEN, *blocks("transactions"), TRANSACTIONS_THEN]
    (tmp_path / "program.py").write_text("\n".join(program))
    run("program.py", folder=tmp_path)
