"""EndTxn commits and aborts in every version; from version 5 on, it also raises the epoch.

Method: send requests to a broker without sockets.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.transaction_of_one import Transacting
from tests.reference_broker.broker_bench import versions_of


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("version", versions_of(ApiKey.END_TXN))
def test_every_version(bench, version, is_commit):
    x = Transacting(bench)
    producer_id, epoch = x.producer
    x.add(("a", 0), ("b", 1))
    assert x.end(is_commit, version) == ErrorCode.NONE
    assert x.producer == (producer_id, epoch + 1 if version > 4 else epoch)
    assert x.describe().transaction_state == ("CompleteCommit" if is_commit else "CompleteAbort")
    for name, number in (("a", 0), ("b", 1)):
        log = bench.core.directory.of(name)[number]
        assert log.next_offset == 1, "the log has a marker"
        (_, header), *_ = log.headers()
        assert (header.producer_id, header.producer_epoch, header.is_control) == (*x.producer, True)


@pytest.mark.parametrize("version", versions_of(ApiKey.END_TXN))
def test_fenced_producers(bench, version):
    x = Transacting(bench)
    x.init()
    fenced = ErrorCode.INVALID_PRODUCER_EPOCH if version < 2 else ErrorCode.PRODUCER_FENCED
    assert x.end(True, version) == fenced
    assert x.end(True, version, (99, 0)) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
