"""Read the operations that a broker says its client may perform on a topic, a group or the cluster (KIP-430)."""

from __future__ import annotations

from kafkawire.sdk.protocol.tables.enums import AUTHORIZED_OPERATIONS_OMITTED, AclOperation

__all__ = ["authorized_operations"]

#: The members of `AclOperation` that stand for no single operation; rules and filters use them.
_NO_OPERATION = frozenset({AclOperation.UNKNOWN, AclOperation.ANY, AclOperation.ALL})


def authorized_operations(bits: int) -> frozenset[AclOperation] | None:
    """Return the operations in a response.

    Args:
        bits: bit n stands for `AclOperation` n; bits of operations that this release does not know are ignored.

    Returns:
        The operations; None if the broker does not say, because it was not asked or is too old.
    """
    if bits == AUTHORIZED_OPERATIONS_OMITTED:
        return None
    return frozenset(each for each in AclOperation if bits >> each & 1 and each not in _NO_OPERATION)
