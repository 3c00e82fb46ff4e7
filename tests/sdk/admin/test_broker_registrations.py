"""An admin unregisters a broker, and passes on why it was not unregistered.

Method: call a scripted broker with hand-built responses.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.admin.admin import Admin
from kafkawire.sdk.errors import BrokerError, LocalProtocolError
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.sdk.admin.administering import administering
from tests.sdk.scripted_broker import StoringBroker


def test_unregister() -> None:
    responses = [
        messages.UnregisterBrokerResponse(),
        messages.UnregisterBrokerResponse(0, ErrorCode.BROKER_ID_NOT_REGISTERED, "it is not"),
    ]

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.UNREGISTER_BROKER] = lambda request: responses.pop(0)
        await admin.unregister_broker(7)
        with pytest.raises(BrokerError, match=r"^BROKER_ID_NOT_REGISTERED: unregister broker 8: it is not$"):
            await admin.unregister_broker(8)
        for given in (-1, "7", None):
            with pytest.raises(LocalProtocolError, match="node id"):
                await admin.unregister_broker(given)  # type: ignore[arg-type]  # wrong
        assert broker.asked(ApiKey.UNREGISTER_BROKER) == [
            messages.UnregisterBrokerRequest(7),
            messages.UnregisterBrokerRequest(8),
        ]

    administering(test)
