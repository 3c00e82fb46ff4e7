"""Bisection finds the partition whose batch no response can carry, and blames no other partition.

Method: run the search alone, with hypothesis, on any number of partitions, any of which may have such a batch.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkawire.sdk.consumer.fetching.oversized_batch_search import OversizedBatchSearch
from kafkawire.sdk.routing.partitions import TopicPartition


@given(count=st.integers(1, 40), data=st.data())
def test_each_large_one_is_found_and_everybody_else_is_fetched(count: int, data: st.DataObject) -> None:
    wanted = {TopicPartition("t", number): number for number in range(count)}
    large = data.draw(st.sets(st.sampled_from(list(wanted))))
    search, found, fetched, failures = OversizedBatchSearch(), set(), set[TopicPartition](), 0
    while len(fetched) + len(found) < count:
        group = search.group(wanted)
        assert group.items() <= wanted.items()
        if large & group.keys():
            failures += 1
            partition = search.too_large(wanted)
            if partition is not None:
                assert group.keys() == {partition} <= large
                found.add(partition)
                del wanted[partition]
        else:
            search.taken()
            fetched |= group.keys()
    assert found == large
    assert failures <= len(large) * (count.bit_length() + 1), "at most about log2(count) connections per large batch"
    assert search.group(wanted) is wanted or not large


def test_a_group_that_is_not_wanted_any_more_is_left_out() -> None:
    wanted = {TopicPartition("t", number): number for number in range(4)}
    search = OversizedBatchSearch()
    assert search.too_large(wanted) is None
    assert search.is_active
    later = {partition: number for partition, number in wanted.items() if number > 1}
    assert search.group(later) == later
    assert search.group({}) == {}
    assert not search.is_active
