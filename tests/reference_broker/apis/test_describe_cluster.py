"""DescribeCluster lists the one broker, and refuses the endpoints that only controllers list, as Apache Kafka does.

Method: a broker without sockets, sent the cases of a table that holds Kafka's answers.
"""

import pytest

from kafkawire.sdk.protocol.tables.apis import ApiKey
from tests.reference_broker.apis.asked_bench import check
from tests.reference_broker.apis.asked_cases import cases, name_of


@pytest.mark.parametrize("case", cases(ApiKey.DESCRIBE_CLUSTER), ids=name_of)
def test_answers(bench, case):
    check(bench, case)
