"""The programs on the guide's pages about transactions and share groups run on Apache Kafka.

Method: proceed as in tests/test_guide.py, which runs the programs of all pages on the reference broker.
"""

from __future__ import annotations

from pathlib import Path

from tests.guide import (
    SHARE_GROUPS_GIVEN,
    SHARE_GROUPS_THEN,
    TRANSACTIONS_GIVEN,
    TRANSACTIONS_THEN,
    blocks,
    run,
)
from tests.kafka.apache import ApacheKafka
from tests.kafka.servers import Server


def test_the_page_on_share_groups(tmp_path: Path) -> None:
    with ApacheKafka() as node:
        program = [f"servers = {node.bootstrap!r}", SHARE_GROUPS_GIVEN, *blocks("share_groups"), SHARE_GROUPS_THEN]
        (tmp_path / "program.py").write_text("\n".join(program))
        run("program.py", folder=tmp_path)


def test_the_page_on_transactions(kafka: Server, tmp_path: Path) -> None:
    program = [f"servers = {kafka.bootstrap!r}", TRANSACTIONS_GIVEN, *blocks("transactions"), TRANSACTIONS_THEN]
    (tmp_path / "program.py").write_text("\n".join(program))
    run("program.py", folder=tmp_path)
