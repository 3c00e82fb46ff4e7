"""Quotas are listed and changed, and each entity has its own result.

Method: call a scripted in-memory broker with hand-built responses, then a real broker in the process.
"""

from __future__ import annotations

import pytest

import kafkawire
from kafkawire import (
    Admin,
    ClientQuotaAlteration,
    ClientQuotaEntity,
    ClientQuotaFilter,
    ClientQuotaFilterComponent,
    DefaultEntity,
    sync,
)
from kafkawire.sdk.errors import BrokerError, RemoteProtocolError
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.testing import Broker
from tests.sdk.admin.administering import administering
from tests.sdk.scripted_broker import StoringBroker

DEFAULT = DefaultEntity.DEFAULT
ALICE, ALICES_APP = ClientQuotaEntity("alice"), ClientQuotaEntity("alice", DEFAULT)
Described = messages.DescribeClientQuotasResponse
Altered = messages.AlterClientQuotasResponse


def test_what_is_asked_and_what_is_returned() -> None:
    entries = [
        Described.EntryData(
            [Described.EntityData("user", "alice"), Described.EntityData("client-id", None)],
            [Described.ValueData("producer_byte_rate", 5.0)],
        ),
        Described.EntryData([Described.EntityData("host", "of a later release")], []),
    ]

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.DESCRIBE_CLIENT_QUOTAS] = lambda request: Described(entries=entries)
        wanted = ClientQuotaFilter(
            (
                ClientQuotaFilterComponent("user", "alice"),
                ClientQuotaFilterComponent("client-id", DEFAULT),
                ClientQuotaFilterComponent("ip"),
            ),
            strict=True,
        )
        assert await admin.describe_client_quotas(wanted) == {ALICES_APP: {"producer_byte_rate": 5.0}}
        await admin.describe_client_quotas()
        first, second = broker.asked(ApiKey.DESCRIBE_CLIENT_QUOTAS)
        assert isinstance(first, messages.DescribeClientQuotasRequest)
        assert isinstance(second, messages.DescribeClientQuotasRequest)
        assert [(each.entity_type, each.match_type, each.match) for each in first.components] == [
            ("user", 0, "alice"),
            ("client-id", 1, None),
            ("ip", 2, None),
        ]
        assert (first.strict, second.strict, len(second.components)) == (True, False, 0)

    administering(test)


def test_a_filter_that_the_broker_refuses() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.DESCRIBE_CLIENT_QUOTAS] = lambda request: Described(
            error_code=ErrorCode.INVALID_REQUEST, error_message="no", entries=None
        )
        with pytest.raises(BrokerError, match="INVALID_REQUEST: client quotas: no"):
            await admin.describe_client_quotas()

    administering(test)


def test_each_entity_has_its_own_result() -> None:
    def altered(*entries: Altered.EntryData) -> Altered:
        return Altered(entries=list(entries))

    refused = Altered.EntryData(
        ErrorCode.INVALID_REQUEST, "no", [Altered.EntityData("client-id", None), Altered.EntityData("user", "alice")]
    )

    async def test(broker: StoringBroker, admin: Admin) -> None:
        done = Altered.EntryData(0, None, [Altered.EntityData("user", "alice")])
        broker.responders[ApiKey.ALTER_CLIENT_QUOTAS] = lambda request: altered(refused, done)
        alterations = [
            ClientQuotaAlteration(ALICE, {"producer_byte_rate": 5, "request_percentage": None}),
            ClientQuotaAlteration(ALICES_APP, {"consumer_byte_rate": 0.5}),
        ]
        results = await admin.alter_client_quotas(alterations, validate_only=True)
        assert results.values == {ALICE: None}
        assert list(results.errors) == [ALICES_APP]
        text = "INVALID_REQUEST: quotas of user alice and client-id <default>: no"
        assert str(results.errors[ALICES_APP]) == text
        (request,) = broker.asked(ApiKey.ALTER_CLIENT_QUOTAS)
        assert isinstance(request, messages.AlterClientQuotasRequest)
        assert request.validate_only
        assert [[(op.key, op.value, op.remove) for op in entry.ops] for entry in request.entries] == [
            [("producer_byte_rate", 5.0, False), ("request_percentage", 0.0, True)],
            [("consumer_byte_rate", 0.5, False)],
        ]
        broker.responders[ApiKey.ALTER_CLIENT_QUOTAS] = lambda request: altered(refused)
        with pytest.raises(RemoteProtocolError, match="lacks user alice"):
            await admin.alter_client_quotas(*alterations)

    administering(test)


def test_a_broker_in_the_process() -> None:
    everybody = ClientQuotaEntity(DEFAULT)
    here = ClientQuotaEntity(ip="127.0.0.1")
    with Broker() as broker, sync.Admin(broker.bootstrap) as admin:
        changes = [
            ClientQuotaAlteration(everybody, {"request_percentage": 200}),
            ClientQuotaAlteration(here, {"connection_creation_rate": 1_000}),
        ]
        assert admin.alter_client_quotas(*changes).all() == {everybody: None, here: None}
        quotas = {everybody: {"request_percentage": 200.0}, here: {"connection_creation_rate": 1_000.0}}
        assert admin.describe_client_quotas() == quotas
        users = ClientQuotaFilter((ClientQuotaFilterComponent("user"),))
        assert admin.describe_client_quotas(users) == {everybody: {"request_percentage": 200.0}}
        errors = admin.alter_client_quotas(ClientQuotaAlteration(everybody, {"request_percentage": -1})).errors
        text = "INVALID_REQUEST: quotas of user <default>: Quota request_percentage must be greater than 0"
        assert [str(error) for error in errors.values()] == [text]
        removal = ClientQuotaAlteration(everybody, {"request_percentage": None})
        admin.alter_client_quotas(removal).all()
        assert admin.describe_client_quotas(users) == {}
    assert kafkawire.ClientQuotaEntity is ClientQuotaEntity
