"""The bits of a response become operations; without an answer, there is None, which differs from no operation.

Method: check a table of bits.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.admin.authorized_operations import authorized_operations
from kafkawire.sdk.protocol.tables.enums import AUTHORIZED_OPERATIONS_OMITTED, AclOperation


@pytest.mark.parametrize(
    ("bits", "expected"),
    [
        (AUTHORIZED_OPERATIONS_OMITTED, None),
        (0, frozenset()),
        (1 << AclOperation.READ | 1 << AclOperation.DELETE, {AclOperation.READ, AclOperation.DELETE}),
        (1 << AclOperation.UNKNOWN | 1 << AclOperation.ANY | 1 << AclOperation.ALL, frozenset()),
        (1 << 30 | 1 << AclOperation.TWO_PHASE_COMMIT, {AclOperation.TWO_PHASE_COMMIT}),
    ],
)
def test_bits(bits: int, expected: set[AclOperation] | None) -> None:
    assert authorized_operations(bits) == expected
