"""The table of tests that the reference broker cannot pass names tests that are there, and runs them on Kafka alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka.lacking import LACKING, is_lacking


@pytest.mark.parametrize("name", LACKING)
def test_each_is_there_and_takes_either_broker(name: str) -> None:
    module, function = name.split("::")
    text = (Path(__file__).parent / module).read_text()
    assert f"def {function}(either: " in text or f"def {function}(\n    either: " in text


def test_a_test_is_known_by_its_id() -> None:
    assert is_lacking(f"tests/kafka/{next(iter(LACKING))}")
    assert not is_lacking("tests/kafka/test_clients.py::test_acks")
