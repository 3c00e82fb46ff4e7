"""ApiVersions lists what is served, in every version, and responds to an unknown version.

Method: a broker without sockets; an unknown version is a request without a message, as the connection passes it on.
"""

import pytest

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
    assert listed == bench.core.served
    assert ApiKey.INIT_PRODUCER_ID not in listed, "advertised when it works"
    assert response.finalized_features == ()


def test_unknown_version_is_answered_with_the_list(bench):
    request = Request(APIS[ApiKey.API_VERSIONS], 0, 1, None, None, 10)
    response = bench.core.handle(request, "/host", bench.now_ms)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert len(response.api_keys) == len(bench.core.served)


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
