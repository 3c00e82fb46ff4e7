"""The registrations of brokers in a KRaft cluster, which outlive the brokers.

Source: KIP-631, KIP-866.
"""

from __future__ import annotations

from kafkawire.sdk.admin.releases import versioned
from kafkawire.sdk.client.operations import Operations
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.routing.call import ANY_BROKER
from kafkawire.sdk.routing.requests import check, error_text

__all__ = ["unregister_broker"]


async def unregister_broker(operations: Operations, broker_id: int) -> None:
    """Remove the registration of a broker; see `Admin.unregister_broker`."""
    await operations.request(
        ANY_BROKER,
        versioned(messages.UnregisterBrokerRequest(broker_id)),
        messages.UnregisterBrokerResponse,
        lambda response: check(
            response.error_code, error_text(f"unregister broker {broker_id}", response.error_message)
        ),
    )
