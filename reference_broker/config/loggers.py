"""The loggers in the broker's process: clients can list them and set their levels, using Kafka's level names.

Source: `LoggingController`, `ConfigAdminManager.validateLogLevelConfigs` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from kafkawire.reference_broker.config.config_operations import Operation
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import AlterConfigOperation
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["change_levels", "check_levels", "levels"]

_ROOT: Final = "root"

#: Kafka's names for Python's levels, the highest level first.
_LEVELS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG // 2,
}


def levels() -> dict[str, str]:
    """Return the level of each logger, keyed by the logger's name."""
    known = logging.root.manager.loggerDict.items()
    loggers = {_ROOT: logging.root, **{name: each for name, each in known if isinstance(each, logging.Logger)}}
    return {name: _word(logger.getEffectiveLevel()) for name, logger in loggers.items()}


def _word(level: int) -> str:
    return next((word for word, number in _LEVELS.items() if level >= number), "TRACE")


def check_levels(operations: Iterable[Operation]) -> None:
    """Check operations on loggers.

    Raises:
        BrokerError: the logger or level is unknown, or the operation is impossible.
    """
    known = levels()
    for each in operations:
        if each.is_on_a_list:
            word = AlterConfigOperation(each.operation).name
            reason = f"{word} operation is not allowed for the BROKER_LOGGER resource"
            raise BrokerError(ErrorCode.INVALID_REQUEST, reason)
        if each.name not in known:
            raise BrokerError(ErrorCode.INVALID_CONFIG, f"Logger {each.name} does not exist!")
        if each.operation == AlterConfigOperation.DELETE:
            if each.name == _ROOT:
                reason = "Removing the log level of the root logger is not allowed"
                raise BrokerError(ErrorCode.INVALID_REQUEST, reason)
        elif each.value not in _LEVELS:
            reason = (
                f"Cannot set the log level of {each.name} to {each.value} as it is not a supported log level. "
                f"Valid log levels are {', '.join(sorted(_LEVELS))}"
            )
            raise BrokerError(ErrorCode.INVALID_CONFIG, reason)


def change_levels(operations: Iterable[Operation]) -> None:
    """Set the levels of loggers until the process ends; a logger without a level inherits its parent's level."""
    for each in operations:
        logger = logging.getLogger("" if each.name == _ROOT else each.name)
        is_removed = each.operation == AlterConfigOperation.DELETE
        logger.setLevel(logging.NOTSET if is_removed else _LEVELS[each.value or ""])
