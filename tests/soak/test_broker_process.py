"""A broker in a separate process is started, queried, measured, stopped and killed."""

from __future__ import annotations

from kafkawire.sdk.protocol.messages.produce import ProduceResponse
from kafkawire.sdk.records import walk
from tools.soak.broker_process import PRODUCE_VERSION, BrokerProcess, RawClient, produce_request


def test_keeps_its_files(tmp_path):
    with BrokerProcess(tmp_path) as broker:
        with RawClient(broker.bootstrap) as client:
            client.create({"t": 2}, {"segment.bytes": "1048576"})
            answer = client.ask(
                produce_request("t", 1, [b"a", b"b"], 1_700_000_000_000), PRODUCE_VERSION, ProduceResponse
            )
            assert answer.responses[0].partition_responses[0].base_offset == 0
            used_seconds = broker.cpu_seconds
            while broker.cpu_seconds == used_seconds:  # a few hundred requests take one tick
                client.fetch("t", 1, 0)
            assert broker.cpu_seconds > used_seconds
        assert broker.resident_bytes > 10_000_000
        assert broker.descriptors > 3
        assert broker.stop() == 0
        assert not broker.is_running
    with BrokerProcess(tmp_path) as broker, RawClient(broker.bootstrap) as client:
        (batch,) = walk(client.fetch("t", 1, 0))
        assert [bytes(record.value or b"") for record in batch.records()] == [b"a", b"b"]
        broker.kill()
        assert not broker.is_running


def test_in_memory():
    with BrokerProcess(None, num_partitions=3) as broker, RawClient(broker.bootstrap) as client:
        client.create({"t": -1})
        assert not client.fetch("t", 2, 0)
