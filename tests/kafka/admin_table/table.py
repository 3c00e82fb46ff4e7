"""The table of administrators' cases: the scenes in their order."""

from __future__ import annotations

from tests.kafka.admin_table import cluster, configs, groups, records, security, topics, transactions

__all__ = ["SCENES"]

#: The topics of the first scenes are deleted in the last one.
SCENES = [
    *topics.SCENES,
    *configs.SCENES,
    *records.SCENES,
    *groups.SCENES,
    *transactions.SCENES,
    *security.SCENES,
    *cluster.SCENES,
]
