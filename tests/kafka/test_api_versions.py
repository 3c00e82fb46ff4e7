"""The reference broker describes its APIs and features to clients exactly as Apache Kafka does.

Method: send ApiVersions to both brokers in every version, and compare the reference broker's entries with Kafka's.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.config.features import FEATURES
from kafkawire.sdk.protocol.connection import ClientConnection
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkawire.sdk.protocol.programs import message_class
from kafkawire.sdk.protocol.schema import Api
from kafkawire.sdk.protocol.tables.apis import APIS, KNOWN_APIS, ApiKey
from kafkawire.sdk.transport.blocking import ConnectionEnded, FrameSocket
from kafkawire.testing import Broker
from tests.kafka.apache import ApacheKafka

#: The reference broker serves this version without advertising it: consumers of Kafka 0.8.2 send it without asking.
STILL_SERVED = {(ApiKey.OFFSET_COMMIT, 1)}

#: Versions that still have a codec but are no longer served by brokers.
REMOVED = [
    (api, version)
    for api in KNOWN_APIS.values()
    for _release, gone in api.removed
    for version in gone.numbers()
    if (api.key, version) not in STILL_SERVED
]


@pytest.mark.parametrize("api_version", REMOVED, ids=lambda item: f"{item[0].name}-{item[1]}")
def test_removed_versions_are_refused_alike(kafka: ApacheKafka, broker: Broker, api_version: tuple[Api, int]) -> None:
    api, version = api_version
    for bootstrap in (kafka.bootstrap, broker.bootstrap):
        host, _, port = bootstrap.rpartition(":")
        with FrameSocket(host, int(port)) as socket:
            socket.send(*ClientConnection().request(message_class(f"{api.name}Request")(), version).parts)
            with pytest.raises(ConnectionEnded, match="after 0 of"):
                socket.receive()


def ask(bootstrap: str, version: int) -> ApiVersionsResponse:
    host, _, port = bootstrap.rpartition(":")
    connection = ClientConnection()
    with FrameSocket(host, int(port)) as socket:
        socket.send(*connection.request(ApiVersionsRequest("kafkawire", "1.0"), version).parts)
        response = connection.receive(socket.receive()).message
    assert isinstance(response, ApiVersionsResponse)
    return response


@pytest.mark.parametrize("version", APIS[ApiKey.API_VERSIONS].stable_versions.numbers())
def test_equal_for_what_is_served(kafka: ApacheKafka, broker: Broker, version: int) -> None:
    theirs, ours = ask(kafka.bootstrap, version), ask(broker.bootstrap, version)
    known = {entry.api_key: entry for entry in theirs.api_keys}
    assert list(ours.api_keys) == [known[entry.api_key] for entry in ours.api_keys]
    supported = {feature.name: feature for feature in theirs.supported_features}
    finalized = {feature.name: feature for feature in theirs.finalized_features}
    assert list(ours.supported_features) == [supported[feature.name] for feature in ours.supported_features]
    assert list(ours.finalized_features) == [finalized[feature.name] for feature in ours.finalized_features]
    missing = {entry.api_key for entry in theirs.api_keys} - {entry.api_key for entry in ours.api_keys}
    about = {feature.name for feature in FEATURES if feature.api in missing}
    assert set(supported) - about == {feature.name for feature in ours.supported_features}
    assert set(finalized) - about == {feature.name for feature in ours.finalized_features}
    assert (theirs.finalized_features_epoch >= 0) is (ours.finalized_features_epoch >= 0)
    assert theirs.zk_migration_ready == ours.zk_migration_ready
