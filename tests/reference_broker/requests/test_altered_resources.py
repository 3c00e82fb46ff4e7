"""Every resource in a request gets one result, and the response waits for all of them.

Method: use resources that are changed immediately, later, or not at all.
"""

from collections.abc import Callable
from typing import Any

from kafkawire.reference_broker.requests.altered_resources import alter_each
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation, Parts
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

Resource = AlterConfigsRequest.AlterConfigsResource
Result = AlterConfigsResponse.AlterConfigsResourceResponse
Done = Callable[[BrokerError | None], None]


def test_each_resource_has_a_result_and_the_answer_waits_for_all() -> None:
    waiting: list[Done] = []

    def alter(resource: Any, done: Done) -> None:
        if resource.resource_name == "refused":
            raise BrokerError(ErrorCode.INVALID_CONFIG, "no")
        if resource.resource_name == "slow":
            waiting.append(done)
        else:
            done(None)

    names = ["quick", "slow", "refused", "twice", "twice"]
    parts: Parts[AlterConfigsResponse] = Parts()
    work = alter_each(
        [Resource(ConfigResourceType.TOPIC, name) for name in names],
        parts,
        lambda kind, name: Result(resource_type=kind, resource_name=name, error_message=None),
        alter,
    )
    results: list[Result] = []
    yields = 0
    while True:
        try:
            next(work)
            yields += 1
        except StopIteration as end:
            results = end.value
            break
    assert yields == 2 * len(names)  # each resource takes one turn to count and one to change
    answer = parts.respond(AlterConfigsResponse(responses=results))
    assert isinstance(answer, DelayedOperation)
    assert answer.response is None
    (done,) = waiting
    done(BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, "late"))
    assert answer.response is not None
    assert [(each.resource_name, each.error_code, each.error_message) for each in results] == [
        ("quick", ErrorCode.NONE, None),
        ("slow", ErrorCode.KAFKA_STORAGE_ERROR, "late"),
        ("refused", ErrorCode.INVALID_CONFIG, "no"),
        ("twice", ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."),
        ("twice", ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."),
    ]
