"""Apache Kafka gives the answers that the tables of the small administrative APIs expect of the reference broker.

Method: send the requests of `admin_cases.py` to a node and to the reference broker, and those of `token_cases.py` to a
secured node, each on its own connection. Send the requests of `telemetry_cases.py` on one connection for each story. A
node learns of changed tokens and subscriptions a moment later, so a request whose answer shows the earlier state is
repeated. Have Java's producer push its metrics to the reference broker.
"""

from __future__ import annotations

import asyncio

import pytest

from kafkawire import Admin
from kafkawire.reference_broker.server import Broker as ReferenceBroker
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.clock import monotonic_ms, now_ms
from kafkawire.sdk.protocol.messages.create_delegation_token import CreateDelegationTokenResponse
from kafkawire.sdk.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafkawire.sdk.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkawire.sdk.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.enums import AlterConfigOperation, ConfigResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.blocking import FrameSocket
from kafkawire.testing import Broker
from tests.kafka.apache import ApacheKafka, run_tool
from tests.kafka.produced import TIMEOUT_MS, call
from tests.kafka.secure import PASSWORDS, SecureKafka
from tests.reference_broker.apis.admin_cases import admin_cases, shown_answer
from tests.reference_broker.apis.asked_cases import Case, name_of, versions
from tests.reference_broker.apis.token_cases import STEPS, Step, Tokens, shown
from tests.reference_broker.broker_cluster import until
from tests.reference_broker.telemetry.telemetry_cases import STORIES, SUBSCRIPTIONS, Story
from tests.reference_broker.telemetry.telemetry_cases import shown as telemetry_shown


def ask(kafka: SecureKafka, user: str | None, request: Message, version: int | None) -> Message:
    """Return the response to a request that a user sends, or a client on the listener without a login."""
    address = kafka.bootstrap if user is None else kafka.addresses["SASL_PLAINTEXT"]
    host, _, port = address.rpartition(":")
    with FrameSocket(host, int(port), TIMEOUT_MS / 1000) as socket:
        if user is not None:
            call(socket, SaslHandshakeRequest("PLAIN"), 1)
            call(socket, SaslAuthenticateRequest(f"\0{user}\0{PASSWORDS[user]}".encode()), 2)
        newest = APIS[ApiKey(request.SCHEMA.key or 0)].stable_versions.last
        return call(socket, request, newest if version is None else version)


def answer(kafka: SecureKafka, step: Step, tokens: Tokens) -> tuple[tuple[object, ...], Message]:
    """Return the answer to a step once it is as expected, or the last one."""
    deadline_ms = monotonic_ms() + TIMEOUT_MS
    while True:
        response = ask(kafka, step.user, step.request(tokens), step.version)
        found = shown(response, tokens, now_ms())
        if found == step.answer or monotonic_ms() > deadline_ms or step.label:
            return found, response


def test_kafka_gives_the_answers_about_tokens(secure_kafka: SecureKafka) -> None:
    tokens: dict[str, CreateDelegationTokenResponse] = {}
    differing = []
    for step in STEPS:
        found, response = answer(secure_kafka, step, tokens)
        if found != step.answer:
            differing.append(f"{step.name}: {found}, expected {step.answer}")
        if step.label:
            assert isinstance(response, CreateDelegationTokenResponse)
            tokens[step.label] = response
    if differing:
        pytest.fail("\n".join(differing))


CASES = pytest.mark.parametrize("case", admin_cases(), ids=name_of)


def check(bootstrap: str, case: Case, expected: Message | None) -> None:
    host, _, port = bootstrap.rpartition(":")
    for version in versions(case):
        with FrameSocket(host, int(port), TIMEOUT_MS / 1000) as socket:
            found = call(socket, case.request, version)
        assert shown_answer(found, version) == shown_answer(expected, version), version


@CASES
def test_kafka_gives_the_answers_of_the_table(kafka: ApacheKafka, case: Case) -> None:
    check(kafka.bootstrap, case, case.response)


@CASES
def test_the_reference_broker_gives_the_answers_of_the_table(broker: Broker, case: Case) -> None:
    check(broker.bootstrap, case, case.expected)


STORY = pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)


def play(bootstrap: str, story: Story) -> None:
    """Set the subscriptions of a story, and send its requests."""
    kind, Config = IncrementalAlterConfigsRequest, IncrementalAlterConfigsRequest.AlterableConfig
    delete, set_ = AlterConfigOperation.DELETE, AlterConfigOperation.SET
    resources = [
        kind.AlterConfigsResource(
            ConfigResourceType.CLIENT_METRICS,
            name,
            [
                Config(key, set_ if (value := story.subscriptions.get(name, {}).get(key)) else delete, value)
                for key in ("metrics", "interval.ms", "match")
            ],
        )
        for name in SUBSCRIPTIONS
    ]
    host, _, port = bootstrap.rpartition(":")
    with FrameSocket(host, int(port), TIMEOUT_MS / 1000) as socket:
        response = call(socket, kind(resources), 1)
        assert isinstance(response, IncrementalAlterConfigsResponse)
        assert {each.error_code for each in response.responses} == {ErrorCode.NONE}
    first, *others = story.steps
    deadline_ms = monotonic_ms() + TIMEOUT_MS
    while True:
        # The instance of a client is forgotten with its connection.
        with FrameSocket(host, int(port), TIMEOUT_MS / 1000) as socket:
            found = telemetry_shown(call(socket, first.request, 0))
            if found != first.answer and monotonic_ms() < deadline_ms:
                continue
            assert found == first.answer, first.name
            for step in others:
                assert telemetry_shown(call(socket, step.request, 0)) == step.answer, step.name
            return


@STORY
def test_kafka_gives_the_answers_about_client_metrics(kafka: ApacheKafka, story: Story) -> None:
    play(kafka.bootstrap, story)


@STORY
def test_the_reference_broker_gives_the_answers_about_client_metrics(broker: Broker, story: Story) -> None:
    play(broker.bootstrap, story)


def test_javas_producer_pushes_its_metrics() -> None:
    async def run() -> None:
        broker = ReferenceBroker(MemoryDisk(), client_metrics_enable=True)
        await broker.start()
        try:
            async with Admin(broker.bootstrap) as admin:
                configs = {"metrics": "org.apache.kafka.producer.", "interval.ms": "100"}
                await admin.incremental_alter_configs(ConfigResourceType.CLIENT_METRICS, "producers", configs)
            arguments = ("--bootstrap-server", broker.bootstrap, "--topic", "t", "--max-messages", "40")
            tool = asyncio.to_thread(
                run_tool, "org.apache.kafka.tools.VerifiableProducer", *arguments, "--throughput", "20"
            )
            producing = asyncio.ensure_future(tool)

            def sent() -> float:
                name = "org.apache.kafka.producer.topic.record.send.total"
                samples = broker.core.client_metrics.samples()
                return sum(
                    sample.value
                    for sample in samples
                    if sample.name == name and ("client_software_name", "apache-kafka-java") in sample.labels
                )

            await until(lambda: sent() > 0, "the producer has pushed")
            result = await producing
            assert result.returncode == 0, result.stderr
            await until(lambda: not [*broker.core.client_metrics.samples()], "the producer was forgotten")
        finally:
            await broker.stop()

    asyncio.run(run())
