"""The operations in config requests, applied to the current values of a resource.

Source: `ConfigAdminManager.prepareIncrementalConfigs`, `ConfigurationControlManager` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import AlterConfigOperation
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["Operation", "check_operations", "operated"]


class Operation(NamedTuple):
    """An operation on one configuration.

    Attributes:
        name: name of the configuration.
        operation: the operation to perform.
        value: the value to set, append or subtract; lists are separated by commas.
    """

    name: str
    operation: int
    value: str | None

    @property
    def is_on_a_list(self) -> bool:
        """Whether the operation is only valid for lists."""
        return self.operation in (AlterConfigOperation.APPEND, AlterConfigOperation.SUBTRACT)


def check_operations(operations: Iterable[Operation]) -> None:
    """Check operations before the resource's values are known.

    Raises:
        BrokerError: INVALID_REQUEST if a configuration is named twice, a value is missing, or an operation is unknown.
    """
    names: set[str] = set()
    nulls = []
    for each in operations:
        if each.name in names:
            raise BrokerError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
        names.add(each.name)
        if each.operation not in list(AlterConfigOperation):
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"Unknown operation type: {each.operation}")
        if each.value is None and each.operation != AlterConfigOperation.DELETE:
            nulls.append(each.name)
    if nulls:
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")


def operated(
    configs: Mapping[str, str],
    operations: Iterable[Operation],
    refuse: Callable[[Operation], BrokerError | None],
    default: Callable[[str], str],
) -> dict[str, str]:
    """Return configurations after applying operations.

    Args:
        configs: the configurations before the operations.
        operations: checked by `check_operations`.
        refuse: returns why a list operation is impossible; None if it is possible.
        default: returns the inherited value of a list that the resource does not set.

    Raises:
        BrokerError: a list operation is impossible.
    """
    revised = dict(configs)
    for each in operations:
        value = each.value or ""
        if each.operation == AlterConfigOperation.DELETE:
            revised.pop(each.name, None)
        elif each.is_on_a_list:
            if (refusal := refuse(each)) is not None:
                raise refusal
            # As in Kafka, entries keep surrounding spaces, so entries that differ only in spaces are distinct.
            text = revised.get(each.name, default(each.name))
            before, given = text.split(",") if text else [], value.split(",")
            if each.operation == AlterConfigOperation.APPEND:
                after = [*before, *(entry for entry in dict.fromkeys(given) if entry not in before)]
            else:
                after = [entry for entry in before if entry not in given]
            revised[each.name] = ",".join(after)
        else:
            revised[each.name] = value
    return revised
