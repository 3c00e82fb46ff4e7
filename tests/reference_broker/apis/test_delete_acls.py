"""DeleteAcls refuses every filter without an authorizer, as Apache Kafka does.

Method: send a table of requests, with Kafka's answers, to a broker without sockets.
"""

import pytest

from kafkawire.sdk.protocol.tables.apis import ApiKey
from tests.reference_broker.apis.asked_bench import check
from tests.reference_broker.apis.asked_cases import cases, name_of


@pytest.mark.parametrize("case", cases(ApiKey.DELETE_ACLS), ids=name_of)
def test_answers(bench, case):
    check(bench, case)
