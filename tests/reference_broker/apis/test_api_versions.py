"""In every version, ApiVersions lists the served APIs; it also responds to requests in an unknown version.

Method: send requests to a broker without sockets; as from a connection, a request in an unknown version has no message.
"""

import pytest

from kafkawire.reference_broker.config.features import features
from kafkawire.reference_broker.metadata.image import NO_FEATURES, FinalizedFeatures
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsRequest
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.enums import KAFKA_RELEASE
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import versions_of


@pytest.mark.parametrize("version", versions_of(ApiKey.API_VERSIONS))
def test_every_version(bench, version):
    response = bench.ask(ApiVersionsRequest("kafkawire", "1.0"), version)
    assert response.error_code == ErrorCode.NONE
    listed = {entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys}
    assert listed == bench.core.parts["advertised"]
    assert listed[ApiKey.PRODUCE] == (0, 13), "without this, librdkafka up to 2.5 does not compress"
    assert bench.core.requests.served[ApiKey.PRODUCE].first == 3


@pytest.mark.parametrize("version", versions_of(ApiKey.API_VERSIONS))
def test_features_are_those_of_the_apis_that_are_served(bench, version):
    response = bench.ask(ApiVersionsRequest("kafkawire", "1.0"), version)
    supported = {feature.name: (feature.min_version, feature.max_version) for feature in response.supported_features}
    finalized = {feature.name: feature.max_version_level for feature in response.finalized_features}
    known = features(bench.core.requests.served) if version >= 3 else []
    assert finalized == {feature.name: feature.finalized for feature in known}
    assert supported == {f.name: f.supported for f in known if f.supported.first or version >= 4}
    assert response.finalized_features_epoch == (0 if version >= 3 else -1)


def test_client_is_known_from_then_on(bench):
    bench.ask(ApiVersionsRequest("kafkawire", "1.0"), 3)
    assert (bench.peer.software_name, bench.peer.software_version) == ("kafkawire", "1.0")


def test_unknown_version_is_answered_with_those_that_are_known(bench):
    request = Request(APIS[ApiKey.API_VERSIONS], 0, 1, None, None, 10)
    response = bench.core.requests.handle(bench.call(request), None)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    (known,) = response.api_keys
    assert known.api_key == ApiKey.API_VERSIONS
    assert (known.min_version, known.max_version) == bench.core.parts["advertised"][ApiKey.API_VERSIONS]


@pytest.mark.parametrize(
    ("name", "software_version", "code"),
    [
        ("apache-kafka-java", KAFKA_RELEASE, ErrorCode.NONE),
        ("", "1", ErrorCode.INVALID_REQUEST),
        ("a", "", ErrorCode.INVALID_REQUEST),
        ("-a", "1", ErrorCode.INVALID_REQUEST),
        ("a b", "1", ErrorCode.INVALID_REQUEST),
    ],
)
def test_names_of_clients(bench, name, software_version, code):
    assert bench.ask(ApiVersionsRequest(name, software_version), 3).error_code == code


def test_features_that_the_cluster_has_finalized(bench):
    bench.core.metadata.publish(features=FinalizedFeatures({"metadata.version": 8, "new": 2}, 7))
    response = bench.ask(ApiVersionsRequest("kafkawire", "1.0"))
    found = [(each.name, each.max_version_level, each.min_version_level) for each in response.finalized_features]
    assert found == [("metadata.version", 8, 8), ("new", 2, 2)]
    assert response.finalized_features_epoch == 7
    bench.core.metadata.publish(features=NO_FEATURES)
    response = bench.ask(ApiVersionsRequest("kafkawire", "1.0"))
    assert (response.finalized_features, response.finalized_features_epoch) == ((), -1)
