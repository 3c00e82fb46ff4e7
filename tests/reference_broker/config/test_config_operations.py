"""Operations change configurations one after another; invalid ones are refused before anything is changed.

Method: check tables of configurations, operations and results.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.config.config_operations import Operation, check_operations, operated
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import AlterConfigOperation
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

SET, DELETE = AlterConfigOperation.SET, AlterConfigOperation.DELETE
APPEND, SUBTRACT = AlterConfigOperation.APPEND, AlterConfigOperation.SUBTRACT


def refusal(each: Operation) -> BrokerError | None:
    return None if each.name == "list" else BrokerError(ErrorCode.INVALID_CONFIG, f"no list: {each.name}")


@pytest.mark.parametrize(
    ("before", "operations", "after"),
    [
        ({}, [("a", SET, "1")], {"a": "1"}),
        ({"a": "1", "b": "2"}, [("a", SET, ""), ("b", DELETE, "2"), ("c", DELETE, None)], {"a": ""}),
        ({}, [("list", APPEND, "x")], {"list": "d,e,x"}),
        ({"list": " x ,y"}, [("list", APPEND, "y, x,z,z")], {"list": " x ,y, x,z"}),
        ({"list": "x,y"}, [("list", SUBTRACT, "y,none")], {"list": "x"}),
        ({"list": "x"}, [("list", SUBTRACT, "x")], {"list": ""}),
        ({"list": "x, y"}, [("list", SUBTRACT, "x,y")], {"list": " y"}),
        ({}, [("list", SUBTRACT, "e")], {"list": "d"}),
        ({"list": ""}, [("list", APPEND, "")], {"list": ""}),
        ({"list": "x"}, [("list", APPEND, "")], {"list": "x,"}),
    ],
)
def test_operations(before: dict[str, str], operations: list[tuple[str, int, str]], after: dict[str, str]) -> None:
    given = [Operation(*each) for each in operations]
    check_operations(given)
    kept = dict(before)
    assert operated(before, given, refusal, lambda name: "d,e") == after
    assert before == kept


@pytest.mark.parametrize("operation", [APPEND, SUBTRACT])
def test_only_lists_have_entries(operation: int) -> None:
    with pytest.raises(BrokerError, match="no list: a"):
        operated({}, [Operation("list", SET, "x"), Operation("a", operation, "x")], refusal, lambda name: "")


@pytest.mark.parametrize(
    ("operations", "reason"),
    [
        ([("a", SET, "1"), ("a", SET, "1")], "Error due to duplicate config keys"),
        ([("a", SET, None), ("b", DELETE, None), ("c", APPEND, None)], "Null value not supported for : a, c"),
        ([("a", 4, "1")], "Unknown operation type: 4"),
        ([("a", -1, "1")], "Unknown operation type: -1"),
    ],
)
def test_what_makes_no_sense_is_refused(operations: list[tuple[str, int, str | None]], reason: str) -> None:
    with pytest.raises(BrokerError) as caught:
        check_operations([Operation(*each) for each in operations])
    assert (caught.value.code, caught.value.detail) == (ErrorCode.INVALID_REQUEST, reason)
