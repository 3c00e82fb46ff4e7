"""A broker without sockets that has an authorizer, a topic, a group and a transactional id.

The same preparation serves a real Apache Kafka: `prepare` takes a function that sends a superuser's requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from kafkawire.reference_broker.metadata.principal import KafkaPrincipal
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.requests.peer import Peer
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.errors import RemoteProtocolError
from kafkawire.sdk.protocol.acls import AclBinding, AclBindingFilter
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import CoordinatorType
from tests.reference_broker.apis.authorization_cases import GROUP, TOPIC, TXN_ID, Case, Facts, Right, answers
from tests.reference_broker.apis.token_bench import SECRET_KEY
from tests.reference_broker.broker_bench import LISTENER, BrokerBench

__all__ = ["ADMIN", "ALICE", "STANDARD", "AuthorizedBench", "prepare"]

#: A superuser, and a user that has only the rights that tests give it.
ADMIN, ALICE = KafkaPrincipal("User", "admin"), KafkaPrincipal("User", "alice")

STANDARD: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

_COMMIT_VERSION, _FIND_VERSION, _INIT_VERSION, _CREATE_VERSION = 8, 4, 4, 7

#: Sends a request in a version, and returns the response.
Ask = Callable[[Message, int], Any]


def prepare(ask: Ask, until: Callable[[Callable[[], bool]], None]) -> Facts:
    """Create what the cases need.

    Args:
        ask: sends a superuser's request.
        until: calls a function until it returns True.
    """
    creation = CreateTopicsRequest([CreateTopicsRequest.CreatableTopic(TOPIC, 1, 1)], 10_000)
    topic_ids: list[bytes] = []

    def is_created() -> bool:
        (made,) = ask(creation, _CREATE_VERSION).topics
        if not made.error_code:
            topic_ids.append(bytes(made.topic_id))
        return bool(topic_ids)

    def is_found(key: str, kind: CoordinatorType) -> bool:
        response = ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), _FIND_VERSION)
        return not response.coordinators[0].error_code

    def has_committed() -> bool:
        part = OffsetCommitRequest.OffsetCommitRequestPartition(0, 1)
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(TOPIC, partitions=[part])
        response = ask(OffsetCommitRequest(GROUP, topics=[topic]), _COMMIT_VERSION)
        return not response.topics[0].partitions[0].error_code

    # A new cluster may not know its brokers yet.
    until(is_created)
    until(lambda: is_found(GROUP, CoordinatorType.GROUP))
    until(lambda: is_found(TXN_ID, CoordinatorType.TRANSACTION))
    until(has_committed)
    until(lambda: not ask(InitProducerIdRequest(TXN_ID, 1_000), _INIT_VERSION).error_code)
    return Facts(*topic_ids)


def _once(is_done: Callable[[], bool]) -> None:
    assert is_done()


class AuthorizedBench(BrokerBench):
    """A broker whose client is Alice, who has no rights.

    Attributes:
        facts: see `Facts`.
    """

    def __init__(self, **options: object) -> None:
        given = {
            "authorizer_class_name": STANDARD,
            "delegation_token_secret_key": SECRET_KEY,
            "node_id": 1,
            "super_users": str(ADMIN),
            "transaction_state_log_num_partitions": 1,
            **options,
        }
        super().__init__(MemoryDisk(), **given)
        # Only clients that have logged in may ask for delegation tokens.
        self.peer = Peer(LISTENER._replace(protocol="SASL_PLAINTEXT"), "host")
        self.peer.principal = ADMIN
        self.facts = prepare(self.ask, _once)
        self.peer.principal = ALICE

    def give(self, *rights: Right | AclBinding) -> None:
        """Give Alice rights in addition to those that she has."""
        acls = self.core.authorizer.acls
        assert acls is not None
        bindings = [each.of(str(ALICE)) if isinstance(each, Right) else each for each in rights]
        acls.create(bindings, lambda errors: _none(errors))

    def revoke_all(self) -> None:
        """Delete all ACLs."""
        acls = self.core.authorizer.acls
        assert acls is not None
        acls.delete([AclBindingFilter()], lambda results: None)

    def answers(self, case: Case) -> list[str]:
        """Return what the response to a case says; see `answers`."""
        try:
            response = self.ask(case.request(self.facts), case.version)
        except RemoteProtocolError:
            response = None
        assert not isinstance(response, DelayedOperation)
        return answers(response, case.version)


def _none(errors: Iterable[object]) -> None:
    assert not any(errors)
