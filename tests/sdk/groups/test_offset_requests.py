"""Requests for offsets name topics by id if possible, and responses are read in either form.

Method: encode and decode each version that a broker may know.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import RemoteProtocolError
from kafkawire.sdk.groups.offset_requests import commit_request, commit_results, fetch_request, fetch_results
from kafkawire.sdk.groups.protocol import GroupMetadata
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitResponse
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchResponse
from kafkawire.sdk.protocol.programs import program
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.routing.metadata import Metadata
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from tests.sdk.groups.members import refusal
from tests.sdk.simulation import Connection, cluster, topic_id

P, Q, U = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def known(*topics: str) -> Metadata:
    """Return metadata in which these topics have ids."""
    from kafkawire.sdk.protocol.messages.metadata import MetadataRequest

    metadata = Metadata()
    request = MetadataRequest([MetadataRequest.MetadataRequestTopic(name=name) for name in topics])
    metadata.update(cluster([1], {key: [1, 1] for key in topics})(request, 13), 0)  # type: ignore[arg-type]  # it answers with metadata
    return metadata


@pytest.mark.parametrize("version", range(2, 11))
def test_commits(version: int) -> None:
    offsets = {P: OffsetAndMetadata(7, "note", 3), Q: OffsetAndMetadata(8), U: OffsetAndMetadata(9)}
    signature = GroupMetadata("g", 4, "m", "i" if version >= 7 else None)
    versions = Connection({ApiKey.OFFSET_COMMIT: version})
    request, chosen, names = commit_request(offsets, signature, {"t": topic_id("t"), "u": topic_id("u")}, versions)
    assert chosen == version
    code = program(type(request), chosen)
    request = code.decode(code.encode(request))[0]
    assert (request.group_id, request.generation_id_or_member_epoch, request.member_id) == ("g", 4, "m")
    assert [topic.name for topic in request.topics] == (["", ""] if version == 10 else ["t", "u"])
    assert request.topics[0].partitions[0].committed_metadata == "note"
    response = refusal(request, 3)  # type: ignore[arg-type]  # any code will do
    assert isinstance(response, OffsetCommitResponse)
    answered = program(OffsetCommitResponse, chosen)
    response = answered.decode(answered.encode(response))[0]
    assert dict(commit_results(response, names)) == {P: 3, Q: 3, U: 3}


@pytest.mark.parametrize("version", range(1, 11))
def test_look_ups(version: int) -> None:
    versions = Connection({ApiKey.OFFSET_FETCH: version})
    asked, chosen, names = fetch_request("g", [P, Q, U], known("t", "u"), versions)
    assert chosen == version
    code = program(type(asked), chosen)
    request = code.decode(code.encode(asked))[0]
    assert request.require_stable is (version >= 7)
    response = OffsetFetchResponse(error_code=0 if version >= 8 else 5)
    if version < 8:
        response.topics = [
            OffsetFetchResponse.OffsetFetchResponseTopic(
                topic.name,
                [
                    OffsetFetchResponse.OffsetFetchResponsePartition(number, -1 if topic.name == "u" else 7, 3, "n", 0)
                    for number in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ]
    else:
        (group,) = request.groups
        assert (group.group_id, bool(group.topics and group.topics[0].name)) == ("g", version < 10)
        topics = [
            OffsetFetchResponse.OffsetFetchResponseTopics(
                topic.name,
                topic.topic_id,
                [
                    OffsetFetchResponse.OffsetFetchResponsePartitions(
                        number, -1 if topic_id("u") == topic.topic_id or topic.name == "u" else 7, 3, "n", 0
                    )
                    for number in topic.partition_indexes
                ],
            )
            for topic in group.topics or ()
        ]
        response.groups = [OffsetFetchResponse.OffsetFetchResponseGroup("g", topics, 5)]
    answered = program(OffsetFetchResponse, chosen)
    error, results = fetch_results(answered.decode(answered.encode(response))[0], asked, names)
    epoch = 3 if version >= 5 else -1
    found = OffsetAndMetadata(7, "n", epoch)
    assert error == (5 if version >= 2 else 0)
    assert list(results) == [(P, 0, found), (Q, 0, found), (U, 0, None)]


def test_a_response_without_the_group() -> None:
    request, _, names = fetch_request("g", [P], known("t"), Connection({ApiKey.OFFSET_FETCH: 8}))
    other = OffsetFetchResponse(groups=[OffsetFetchResponse.OffsetFetchResponseGroup("h")])
    for response in (OffsetFetchResponse(), other):
        with pytest.raises(RemoteProtocolError, match="the response to OffsetFetch lacks group g"):
            fetch_results(response, request, names)


@pytest.mark.parametrize("version", [2, 7, 8, 9, 10])
def test_everything_that_a_group_has_committed_is_asked_for_by_name(version: int) -> None:
    """A group may have committed for topics whose ids this client does not know."""
    versions = Connection({ApiKey.OFFSET_FETCH: version})
    request, chosen, names = fetch_request("g", None, known("t"), versions, stable=False)
    code = program(type(request), chosen)
    request = code.decode(code.encode(request))[0]
    assert (request.groups[0] if request.groups else request).topics is None
    assert (chosen, names, request.require_stable) == (min(version, 9), {}, False)


def test_names_are_used_unless_all_ids_are_known() -> None:
    versions = Connection({})
    request, version, names = commit_request(
        {P: OffsetAndMetadata(1), U: OffsetAndMetadata(1)},
        GroupMetadata("g"),
        {"t": topic_id("t"), "u": ZERO_UUID},
        versions,
    )
    assert ([topic.name for topic in request.topics], version, names) == (["t", "u"], 9, {})
    fetch, version, names = fetch_request("g", [P, U], known("t"), versions)
    assert ([topic.name for topic in fetch.groups[0].topics or ()], version, names) == (["t", "u"], 9, {})
