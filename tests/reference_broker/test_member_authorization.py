"""A broker of a cluster refuses what an ACL denies, with the answers of Apache Kafka 3.9.1; see `apis/` for the rest.

Method: send the requests of a table, which a real Kafka has answered, to the only broker of a cluster with an embedded
registry, whose ACLs deny everything to the client; then change the ACLs.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.errors import BrokerError, RemoteProtocolError
from kafkawire.sdk.protocol.acls import AclBindingFilter
from kafkawire.sdk.protocol.messages.create_acls import CreateAclsRequest
from kafkawire.sdk.protocol.messages.delete_acls import DeleteAclsRequest
from kafkawire.sdk.protocol.messages.describe_acls import DescribeAclsRequest
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.tables.apis import KNOWN_APIS, ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation, AclPermissionType, PatternType, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.authorization_bench import prepare
from tests.reference_broker.apis.authorization_cases import OPEN, TOPIC, Case, Facts, answers, name_of
from tests.reference_broker.apis.member_authorization_cases import (
    DIFFERENT,
    MEMBER_ANSWERS,
    MEMBER_CASES,
    MEMBER_OPTIONS,
    denials,
    without_addresses,
)
from tests.reference_broker.member_bench import MemberBench

#: A literal ACL that denies everything, as requests write it.
DENIAL = (PatternType.LITERAL, "User:ANONYMOUS", "*", AclOperation.ALL, AclPermissionType.DENY)


def new_bench() -> MemberBench:
    options = {name.replace(".", "_"): value for name, value in MEMBER_OPTIONS.items()}
    return MemberBench(MemoryDisk(), node_id=1, transaction_state_log_num_partitions=1, **options)


@pytest.fixture(scope="module")
def denying() -> tuple[MemberBench, Facts]:
    """A broker whose client may do nothing."""
    bench = new_bench()

    def until(is_done):
        if not is_done():
            bench.settle()
            assert is_done()

    facts = prepare(bench.ask, until)
    errors: list[BrokerError | None] = []
    acls = bench.core.authorizer.acls
    assert acls is not None
    acls.create(denials(str(bench.peer.principal)), errors.extend)
    bench.settle()
    assert errors == [None] * 4
    return bench, facts


def answered(bench: MemberBench, case: Case, facts: Facts) -> list[str]:
    try:
        response = bench.ask(case.request(facts), case.version)
    except RemoteProtocolError:
        response = None
    return without_addresses(answers(response, case.version))


@pytest.mark.parametrize("case", [case for case in MEMBER_CASES if case.name not in DIFFERENT], ids=name_of)
def test_what_is_denied(denying: tuple[MemberBench, Facts], case: Case) -> None:
    assert answered(denying[0], case, denying[1]) == MEMBER_ANSWERS[case.name]


@pytest.mark.parametrize("case", [case for case in MEMBER_CASES if case.name in DIFFERENT], ids=name_of)
def test_what_is_denied_with_another_answer(denying: tuple[MemberBench, Facts], case: Case) -> None:
    found = answered(denying[0], case, denying[1])
    assert found != MEMBER_ANSWERS[case.name]
    assert all("AUTHORIZATION_FAILED" in line for line in found)


def test_every_api_is_in_the_table(denying: tuple[MemberBench, Facts]) -> None:
    served = {KNOWN_APIS[ApiKey(key)].name for key in denying[0].core.requests.served}
    open_to_all = {KNOWN_APIS[key].name for key in OPEN}
    assert served - open_to_all - {case.name.partition(" ")[0] for case in MEMBER_CASES} == set()
    assert set(MEMBER_ANSWERS) == {case.name for case in MEMBER_CASES}
    assert set(DIFFERENT) <= set(MEMBER_ANSWERS)


# Requests that change ACLs.


def code_of_topic(bench: MemberBench) -> int:
    asked = [MetadataRequest.MetadataRequestTopic(name=TOPIC)]
    (topic,) = bench.ask(MetadataRequest(asked, allow_auto_topic_creation=False), 9).topics
    return int(topic.error_code)


def test_requests_change_the_acls_of_the_cluster() -> None:
    bench = new_bench()
    bench.create(TOPIC)
    Creation, Filter = CreateAclsRequest.AclCreation, DeleteAclsRequest.DeleteAclsFilter
    creations = [Creation(ResourceType.TOPIC, name, *DENIAL) for name in (TOPIC, "a/b")]
    created = bench.ask(CreateAclsRequest(creations)).results
    assert [(each.error_code, each.error_message) for each in created] == [
        (ErrorCode.NONE, ""),
        (ErrorCode.INVALID_REQUEST, "Failed to create ACL"),
    ]
    assert code_of_topic(bench) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    wanted = ResourceType.ANY, None, PatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    (described,) = bench.ask(DescribeAclsRequest(*wanted)).resources
    assert (described.resource_name, described.acls[0].principal) == (TOPIC, "User:ANONYMOUS")
    (deleted,) = bench.ask(DeleteAclsRequest([Filter(*wanted)])).filter_results
    assert [each.resource_name for each in deleted.matching_acls] == [TOPIC]
    assert code_of_topic(bench) == ErrorCode.NONE


def test_acls_are_read_before_clients_are_served() -> None:
    bench = new_bench()
    bench.create(TOPIC)
    acls = bench.core.authorizer.acls
    assert acls is not None
    acls.create(denials("User:ANONYMOUS"), lambda errors: None)
    bench.settle()
    bench.restart()
    assert code_of_topic(bench) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    again = bench.core.authorizer.acls
    assert again is not None
    assert set(again.image) == set(denials("User:ANONYMOUS"))
    again.delete([AclBindingFilter()], lambda results: None)
    bench.settle()
    assert code_of_topic(bench) == ErrorCode.NONE
