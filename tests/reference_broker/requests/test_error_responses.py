"""In every served version, every API can report that a request has failed, with an error for each element.

Method: answer requests with two elements in each array with an error, and encode and decode the response.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.reference_broker.apis import load
from kafkawire.reference_broker.requests.delayed_operations import finished
from kafkawire.reference_broker.requests.error_responses import error_response
from kafkawire.sdk.errors import RemoteProtocolError
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from kafkawire.sdk.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkawire.sdk.protocol.messages.fetch import FetchRequest
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsRequest
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchRequest
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.programs import message_class
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.own_package import own_package

CODE = ErrorCode.UNKNOWN_SERVER_ERROR

VERSIONS = [(key, version) for key, served in load().handlers.items() for version in served.versions.numbers()]


def answer_of(*arguments):
    """Return the complete response."""
    return finished(error_response(*arguments))


def filled(kind, version: int):
    """Return a message with two elements in each array."""
    message = kind()
    for field in kind.FIELDS:
        if field.array and version in field.versions:
            one = (lambda field=field: filled(field.type, version)) if isinstance(field.type, type) else _value(field)
            setattr(message, field.name, [one(), one()])
    return message


def _value(field):
    return {"string": str, "int8": int, "int32": int, "int64": int}[field.type]


def codes(message: Message, version: int) -> list[int]:
    """Return the error codes in a message; a structure's own code stands for those of the structures inside it."""
    fields = {field.name: field for field in message.FIELDS if version in field.versions}
    for name in ("error_code", "partition_error_code"):
        if name in fields:
            return [getattr(message, name)]
    arrays = [name for name, field in fields.items() if field.array and isinstance(field.type, type)]
    return [code for name in arrays for element in getattr(message, name) for code in codes(element, version)]


def failed(bench, message, version, text=""):
    api = APIS[ApiKey(message.SCHEMA.key)]
    call = bench.call(Request(api, version, 0, "c", message, 10))
    return bench.through(answer_of(call, message, CODE, text), version)


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_every_version(bench, key, version):
    request: Any = filled(message_class(f"{APIS[key].name}Request"), version)
    if key == ApiKey.PRODUCE:
        request.acks = 1
    found = codes(failed(bench, request, version), version)
    assert found
    assert set(found) == {CODE}


def test_elements_are_named(bench):
    topics = [ListOffsetsRequest.ListOffsetsTopic("a", [ListOffsetsRequest.ListOffsetsPartition(7, timestamp=5)])]
    (topic,) = failed(bench, ListOffsetsRequest(topics=topics), 5).topics
    (partition,) = topic.partitions
    assert (topic.name, partition.partition_index, partition.timestamp) == ("a", 7, -1)
    topics = [FetchRequest.FetchTopic("b", partitions=[FetchRequest.FetchPartition(3)])]
    (topic,) = failed(bench, FetchRequest(topics=topics), 4).responses
    assert (topic.topic, topic.partitions[0].partition_index) == ("b", 3)
    groups = failed(bench, DescribeGroupsRequest(["g", "h"]), 5).groups
    assert [group.group_id for group in groups] == ["g", "h"]
    topics = [OffsetFetchRequest.OffsetFetchRequestTopic("a", [1, 2])]
    (topic,) = failed(bench, OffsetFetchRequest("g", topics), 1).topics
    assert [(entry.partition_index, entry.error_code) for entry in topic.partitions] == [(1, CODE), (2, CODE)]


def test_topics_of_directories_are_named(bench):
    Place, Topic = AlterReplicaLogDirsRequest.AlterReplicaLogDir, AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic
    request = AlterReplicaLogDirsRequest([Place("/a", [Topic("t", [0, 2])]), Place("/b", [Topic("u", [1])])])
    found = failed(bench, request, 2).results
    named = [
        (topic.topic_name, [(each.partition_index, each.error_code) for each in topic.partitions]) for topic in found
    ]
    assert named == [("t", [(0, CODE), (2, CODE)]), ("u", [(1, CODE)])]


def test_all_topics_are_no_topic(bench):
    assert failed(bench, MetadataRequest(None), 12).topics == ()


def test_text_where_there_is_a_place(bench):
    data = [ProduceRequest.TopicProduceData("a", partition_data=[ProduceRequest.PartitionProduceData(0, b"")])]
    request = ProduceRequest(None, 1, 1000, data)
    assert failed(bench, request, 8, "why").responses[0].partition_responses[0].error_message == "why"
    assert failed(bench, request, 7, "why").responses[0].partition_responses[0].error_code == CODE
    request.acks = 0
    with pytest.raises(RemoteProtocolError, match="Produce version 8 failed with UNKNOWN_SERVER_ERROR"):
        failed(bench, request, 8)


OWN = """\
api: Nest
key: 911
listeners: [broker]
request:
  versions: 0
  fields:
    - {name: pages, type: "[]float64"}
    - {name: words, type: "[]string"}
response:
  versions: 0
  fields:
    - name: outcome
      type: Outcome
      fields:
        - {name: error_code, type: int16}
        - {name: error_message, type: string?, default: null}
    - name: pages
      type: "[]Page"
      fields:
        - {name: error_code, type: int16}
        - {name: number, type: int32}
"""


def test_a_response_of_any_other_shape(bench, tmp_path):
    """If codes are in a separate structure or elements have no name, the response contains as much as it can."""
    with own_package(tmp_path, {"nest": OWN}) as (_, apis):
        api = apis.APIS[apis.ApiKey.NEST]
        request = api.request([1.5], ["a", "b"])
        call = bench.call(Request(api, 0, 0, "c", request, 10))
        response: Any = bench.through(answer_of(call, request, CODE, "why"), 0)
        assert (response.outcome.error_code, response.outcome.error_message) == (CODE, "why")
        assert [(page.error_code, page.number) for page in response.pages] == [(CODE, 0)] * 3
