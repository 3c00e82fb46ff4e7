"""The values that describe a quorum can be pickled and compared.

Method: compare copies of a value.
"""

from __future__ import annotations

import copy
import pickle

from kafkawire.sdk.admin.quorum_values import QuorumInfo, QuorumReplica
from kafkawire.sdk.transport.wire import Address


def test_copies() -> None:
    replica = QuorumReplica(1, None, -1, None, 5)
    info = QuorumInfo(1, 2, 3, (replica,), (), {1: {"CONTROLLER": Address("host", 9093)}})
    assert pickle.loads(pickle.dumps(info)) == copy.deepcopy(info) == info
