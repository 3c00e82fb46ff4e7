"""Without an authorizer, DescribeAcls finds nothing, as in Apache Kafka.

Method: send a table of requests, with Kafka's answers, to a broker without sockets.
"""

import pytest

from kafkawire.sdk.protocol.tables.apis import ApiKey
from tests.reference_broker.apis.asked_bench import check
from tests.reference_broker.apis.asked_cases import cases, name_of


@pytest.mark.parametrize("case", cases(ApiKey.DESCRIBE_ACLS), ids=name_of)
def test_answers(bench, case):
    check(bench, case)
