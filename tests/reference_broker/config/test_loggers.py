"""Loggers report and accept levels under Kafka's names.

Method: use the test's own loggers; `config_cases.py` contains the refusals.
"""

from __future__ import annotations

import logging

import pytest

from kafkawire.reference_broker.config.config_operations import Operation
from kafkawire.reference_broker.config.loggers import change_levels, check_levels, levels
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import AlterConfigOperation

NAME = "tests.loggers.sample"


@pytest.mark.parametrize(
    ("level", "word"),
    [
        (60, "FATAL"),
        (50, "FATAL"),
        (40, "ERROR"),
        (30, "WARN"),
        (25, "INFO"),
        (20, "INFO"),
        (10, "DEBUG"),
        (1, "TRACE"),
    ],
)
def test_words(level: int, word: str) -> None:
    logging.getLogger(NAME).setLevel(level)
    assert levels()[NAME] == word


@pytest.mark.parametrize(
    ("word", "level"), [("FATAL", 50), ("ERROR", 40), ("WARN", 30), ("INFO", 20), ("DEBUG", 10), ("TRACE", 5)]
)
def test_levels_are_set(word: str, level: int) -> None:
    logger = logging.getLogger(NAME)
    operations = [Operation(NAME, AlterConfigOperation.SET, word)]
    check_levels(operations)
    change_levels(operations)
    assert (logger.level, levels()[NAME]) == (level, word)
    change_levels([Operation(NAME, AlterConfigOperation.DELETE, None)])
    assert logger.level == logging.NOTSET


def test_the_root_logger() -> None:
    before = logging.root.level
    try:
        change_levels([Operation("root", AlterConfigOperation.SET, "ERROR")])
        assert (logging.root.level, levels()["root"]) == (logging.ERROR, "ERROR")
    finally:
        logging.root.setLevel(before)


def test_a_logger_that_is_not_there() -> None:
    with pytest.raises(BrokerError, match=r"Logger tests\.no\.such does not exist!"):
        check_levels([Operation("tests.no.such", AlterConfigOperation.SET, "INFO")])
    assert "tests.no.such" not in levels()
