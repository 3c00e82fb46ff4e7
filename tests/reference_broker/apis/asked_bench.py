"""A broker without sockets that has the topics of `asked_cases.py` and answers their requests."""

from __future__ import annotations

from kafkawire.sdk.errors import DecodeError, RemoteProtocolError
from kafkawire.sdk.protocol.schema import Message
from tests.reference_broker.apis.admin_cases import shown_answer
from tests.reference_broker.apis.asked_cases import RECORDS, TOPICS, Case, comparable, versions
from tests.reference_broker.broker_bench import BrokerBench

__all__ = ["check", "check_admin", "fill"]


def fill(bench: BrokerBench) -> BrokerBench:
    """Create the topics of the cases."""
    for name, count in TOPICS.items():
        bench.create(name, count)
    assert not bench.produce(bytes(RECORDS), next(iter(TOPICS))).error_code
    return bench


def check(bench: BrokerBench, case: Case) -> None:
    """Check the answer to a case in every version."""
    assert versions(case)
    for version in versions(case):
        answer = _ask(bench, case.request, version)
        assert comparable(answer, version) == comparable(case.expected, version), version


def check_admin(bench: BrokerBench, case: Case) -> None:
    """Check the answer to a case of `admin_cases.py` in every version."""
    assert versions(case)
    for version in versions(case):
        answer = _ask(bench, case.request, version)
        assert shown_answer(answer, version) == shown_answer(case.expected, version), version


def _ask(bench: BrokerBench, request: Message, version: int) -> Message | None:
    """Return the response, or None if the connection would be closed."""
    try:
        answer = bench.ask(request, version)
    except DecodeError:
        raise  # building the response raised an error
    except RemoteProtocolError:
        return None
    assert isinstance(answer, Message)
    return answer
