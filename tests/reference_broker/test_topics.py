"""An auto-created topic gets the broker's defaults, and only a name that Kafka allows.

Method: a broker without sockets; what CreateTopics can ask for is tested in `apis/test_create_topics.py`.
"""

import pytest

from kafkawire.reference_broker.topics import check_name, create_by_default
from kafkawire.sdk.errors import BrokerError
from tests.reference_broker.broker_bench import BrokerBench


def test_defaults(tmp_path):
    bench = BrokerBench(tmp_path / "data", num_partitions=4)
    made = []
    create_by_default(bench.core, "new", made.append)
    (topic,) = made
    assert (len(topic.logs), topic.configs) == (4, {})
    assert bench.core.directory.topics["new"] is topic


@pytest.mark.parametrize("name", ["a", "x" * 249, "A.b_c-9", "...", "_"])
def test_allowed_names(bench, name):
    check_name(bench.core, name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a/b", "ä", "a\n", "__cluster_metadata"])
def test_names_that_are_not_allowed(bench, name):
    with pytest.raises(BrokerError):
        create_by_default(bench.core, name, lambda result: None)
    assert not bench.core.directory.topics


@pytest.mark.parametrize(("first", "second"), [("a.b", "a_b"), ("a_b", "a.b"), ("a.b", "a.b")])
def test_names_that_collide(bench, first, second):
    bench.create(first)
    with pytest.raises(BrokerError):
        check_name(bench.core, second)
