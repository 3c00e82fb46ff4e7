"""The machines of a share consumer run on an I/O thread, and its sessions end before its membership does.

Method: run a core and a scripted in-memory broker on one separate thread, while this thread blocks.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkawire.sdk.client.options import ShareConsumerOptions, read_options
from kafkawire.sdk.consumer.sharing.core import ShareConsumerCore
from kafkawire.sdk.consumer.sharing.delivery import AcquiredRecord
from kafkawire.sdk.errors import BrokerError, Closed, ConnectFailed
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.metadata import MetadataResponse
from kafkawire.sdk.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AcknowledgeType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.fork import Forked
from kafkawire.sdk.transport.waiting import result_of
from tests.sdk.consumer.sharing.share_consuming import QUICK, SharingBroker
from tests.sdk.scripted_broker import BROKER

WAIT_SECONDS = 10


class Setting:
    """A core on a thread, and a broker whose topic t has three records."""

    def __init__(self, **given: object) -> None:
        self.broker = SharingBroker()
        self.broker.fill(b"a", b"b", b"c")
        explicit = {"io": "thread", "share_acknowledgement_mode": "explicit"}
        options = read_options(ShareConsumerOptions, str(BROKER), {**QUICK, **explicit, **given})
        self.core = ShareConsumerCore(options, self.broker.network, AcquiredRecord)

    def start(self) -> None:
        self.core.start(frozenset({"t"})).wait(WAIT_SECONDS)
        self.core.subscribe(frozenset({"t"}))

    def read(self, count: int) -> list[AcquiredRecord]:
        """Block this thread, and return the next deliveries."""
        found: list[AcquiredRecord] = []
        while len(found) < count:
            delivery = self.core.reader.take()
            if delivery is None:
                self.core.queue.wait().wait(WAIT_SECONDS)
            else:
                found.append(delivery)
        return found

    def close(self) -> None:
        result_of(self.core.client.finish, Closed("the share consumer was closed"))


@pytest.fixture
def setting() -> Iterator[Setting]:
    made = Setting()
    made.start()
    yield made
    made.close()


def test_reading_and_committing(setting: Setting) -> None:
    first, second, _ = setting.read(3)
    first.accept()
    second.reject()
    outcomes = setting.core.commit(5_000).wait(WAIT_SECONDS)
    assert [(each.offsets, each.error) for each in outcomes] == [((0, 1), None)]
    assert setting.broker.acknowledged(AcknowledgeType.ACCEPT) == [0]
    assert setting.broker.acknowledged(AcknowledgeType.REJECT) == [1]


def test_leaving(setting: Setting) -> None:
    setting.read(3)[0].accept()
    setting.core.leave(5_000).wait(WAIT_SECONDS)
    assert setting.broker.acknowledged(AcknowledgeType.ACCEPT) == [0]
    assert setting.broker.epochs == {}
    kinds = [ApiKey(request.api.key) for request in setting.broker.requests]
    assert kinds[-2:] == [ApiKey.SHARE_ACKNOWLEDGE, ApiKey.SHARE_GROUP_HEARTBEAT]
    last = setting.broker.asked(ApiKey.SHARE_ACKNOWLEDGE)[-1]
    assert isinstance(last, ShareAcknowledgeRequest)
    assert last.share_session_epoch == -1


def test_metrics(setting: Setting) -> None:
    setting.read(1)
    found = {name.name: value for name, value in setting.core.client.metrics().items() if "share" in name.group}
    assert found["last-poll-seconds-ago"] >= 0
    assert found["last-heartbeat-seconds-ago"] >= 0


def test_a_forked_child_hands_out_nothing(setting: Setting) -> None:
    setting.read(1)
    setting.core.forked(Forked("in a child"))
    with pytest.raises(Forked):
        setting.core.reader.take()


def test_no_bootstrap_server() -> None:
    setting = Setting()
    setting.broker.network.servers.clear()
    with pytest.raises(ConnectFailed):
        setting.core.start(frozenset({"t"})).wait(WAIT_SECONDS)
    setting.close()


def test_a_topic_without_permission() -> None:
    setting = Setting()
    described = setting.broker.responders[ApiKey.METADATA]

    def refused(request: Request) -> MetadataResponse:
        response = described(request)
        assert isinstance(response, MetadataResponse)
        for topic in response.topics:
            topic.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return response

    setting.broker.responders[ApiKey.METADATA] = refused
    with pytest.raises(BrokerError, match="topic t"):
        setting.core.start(frozenset({"t"})).wait(WAIT_SECONDS)
    setting.close()
