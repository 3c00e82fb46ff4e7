"""A message's text is one short line, whatever the message holds, and shows neither bytes nor secrets.

Method: print values of every kind, at and beyond each limit, messages of several megabytes, and the configurations in
each API.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pytest

from kafkawire.sdk.protocol.messages.alter_configs import AlterConfigsRequest
from kafkawire.sdk.protocol.messages.cluster_metadata.config_record import ConfigRecord
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest
from kafkawire.sdk.protocol.messages.describe_configs import DescribeConfigsResponse
from kafkawire.sdk.protocol.messages.fetch import FetchResponse
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest
from kafkawire.sdk.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import KNOWN_APIS
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.text_form import TEXT_CHARACTERS_MAX, to_text, value_text
from tests.own_package import own_package


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (True, "True"),
        (-7, "-7"),
        (2**64 - 1, "18446744073709551615"),
        (2**64, "<int>"),
        (1.5, "1.5"),
        (ErrorCode.NONE, "0"),
        ("it's\n", '"it\'s\\n"'),
        ("x" * 61, f"'{'x' * 60}'…"),
        (b"secret", "<6 bytes>"),
        (memoryview(bytes(8)).cast("i"), "<8 bytes>"),
        ([1, 2, 3], "[1, 2, 3]"),
        ((1, 2, 3, 4, 5), "[1, 2, 3, … 2 more]"),
        (object(), "<object>"),
    ],
)
def test_values(value: Any, text: str) -> None:
    assert value_text(value) == text


def test_fields_with_their_default_are_left_out() -> None:
    assert to_text(HeartbeatRequest("g", 7)) == "HeartbeatRequest(group_id='g', generation_id=7)"
    assert to_text(HeartbeatRequest()) == "HeartbeatRequest()"


def test_structures_and_unknown_tags() -> None:
    request = MetadataRequest([MetadataRequest.MetadataRequestTopic(name="t")], unknown_tags=((9, b"x"),))
    text = to_text(request)
    assert text == "MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name='t')], 1 unknown tags)"


def test_passwords_are_not_shown() -> None:
    assert to_text(SaslAuthenticateRequest(b"\0user\0pass")) == "SaslAuthenticateRequest(auth_bytes=<10 bytes>)"


JAAS = 'PlainLoginModule required password="hunter2";'


def configs(kind: Any, *names: str, **others: Any) -> Any:
    return [kind(name, value=JAAS, **others) for name in names]


SECRET = (
    *("listener.name.x.plain.sasl.jaas.config", "ssl.keystore.password", "listener.name.x.ssl.keystore.key"),
    *("listener.name.x.sasl.other", "x" * 300),
)


@pytest.mark.parametrize("name", SECRET)
@pytest.mark.parametrize(
    "message",
    [
        lambda name: AlterConfigsRequest(
            [AlterConfigsRequest.AlterConfigsResource(4, "1", configs(AlterConfigsRequest.AlterableConfig, name))]
        ),
        lambda name: IncrementalAlterConfigsRequest(
            [
                IncrementalAlterConfigsRequest.AlterConfigsResource(
                    4, "1", configs(IncrementalAlterConfigsRequest.AlterableConfig, name)
                )
            ]
        ),
        lambda name: CreateTopicsRequest(
            [CreateTopicsRequest.CreatableTopic("t", configs=configs(CreateTopicsRequest.CreatableTopicConfig, name))]
        ),
        lambda name: DescribeConfigsResponse(
            results=[
                DescribeConfigsResponse.DescribeConfigsResult(
                    configs=configs(
                        DescribeConfigsResponse.DescribeConfigsResourceResult,
                        "log.dir",
                        synonyms=configs(DescribeConfigsResponse.DescribeConfigsSynonym, name),
                        is_sensitive=True,
                    )
                )
            ]
        ),
        lambda name: ConfigRecord(4, "1", name, JAAS),
    ],
)
def test_configurations_that_may_be_secret_are_not_shown(message: Any, name: str) -> None:
    text = to_text(message(name), 10_000)
    assert "value=<hidden>" in text
    assert "hunter2" not in text


def test_other_configurations_are_shown() -> None:
    config = AlterConfigsRequest.AlterableConfig("cleanup.policy", "compact")
    assert to_text(config) == "AlterConfigsRequest.AlterableConfig(name='cleanup.policy', value='compact')"


LOGIN = """\
api: Login
key: 911
listeners: [broker]
request:
  versions: 0
  fields:
    - {name: user, type: string}
    - {name: password, type: string}
    - {name: old_passwords, type: "[]string"}
    - {name: password_changes, type: int32}
response: {versions: 0, fields: []}
"""


def test_fields_that_may_be_secret_are_not_shown(tmp_path: Path) -> None:
    with own_package(tmp_path, {"login": LOGIN}) as (messages, _):
        text = to_text(messages.LoginRequest("ann", "hunter2", ["hunter1"], 3))
    assert text == "LoginRequest(user='ann', password=<hidden>, old_passwords=<hidden>, password_changes=3)"


def test_no_text_of_kafkas_messages_is_hidden_but_values() -> None:
    """If a later release has a field that is named like a secret, this test fails; decide whether it is one."""

    def hidden(kind: type[Message]) -> set[str]:
        found = {field.name for field in kind.FIELDS if to_text(kind(**{field.name: "text"})).count("<hidden>")}
        return found.union(*(hidden(field.type) for field in kind.FIELDS if isinstance(field.type, type)))

    apis = KNOWN_APIS.values()
    assert set().union(*(hidden(kind) for api in apis for kind in (api.request, api.response))) == set()


def test_the_length_is_bounded() -> None:
    partitions = [FetchResponse.PartitionData(number, records=bytes(1_000_000)) for number in range(1_000)]
    topics = [FetchResponse.FetchableTopicResponse("t" * 200, partitions=partitions)] * 100
    text = to_text(FetchResponse(responses=topics))
    assert len(text) == TEXT_CHARACTERS_MAX + 1
    assert text.endswith("…")
    assert to_text(FetchResponse(responses=topics), 10) == "FetchRespo…"


def test_whatever_a_field_holds() -> None:
    request = MetadataRequest(topics=Incomparable(), unknown_tags=5)  # type: ignore[arg-type]  # not a valid value of any field
    assert to_text(request) == "MetadataRequest(topics=<Incomparable>, unknown_tags=5)"
    heartbeat = HeartbeatRequest("g")
    del heartbeat.member_id, heartbeat.unknown_tags
    assert to_text(heartbeat) == "HeartbeatRequest(group_id='g', member_id=<not set>, unknown_tags=<not set>)"


class Incomparable:
    """A value whose comparison does not return a bool, as with a numpy array."""

    def __eq__(self, other: object) -> NoReturn:
        raise ValueError

    __hash__ = None  # type: ignore[assignment]  # mutable, like those arrays
