"""A client that asks a broker to greet people. Versions, retries and logins work as in every kafkawire client."""

from __future__ import annotations

from typing import Final

from examples.own_api.messages.greet import GreetRequest, GreetResponse
from examples.own_api.tables import apis
from kafkawire import BrokerError
from kafkawire.protocol import APIS, ApiRegistry, ErrorCode
from kafkawire.sdk.client.core import ClientCore
from kafkawire.sdk.client.options import AdminOptions, read_options
from kafkawire.sdk.routing.call import ANY_BROKER

__all__ = ["REGISTRY", "Greetings"]

#: The APIs that this client's connections know.
REGISTRY: Final = ApiRegistry(APIS, apis.APIS)


class Greetings:
    """Greet people.

    Args:
        servers: the brokers to which the client connects first, as `host:port,host:port`.
        options: the options of an admin client, such as `sasl_mechanism`.
    """

    def __init__(self, servers: str, **options: object) -> None:
        self._core = ClientCore("greeter", read_options(AdminOptions, servers, options), None, apis=REGISTRY)

    async def start(self) -> None:
        """Connect to the cluster."""
        await self._core.start()

    async def close(self) -> None:
        """Disconnect."""
        await self._core.finish()

    async def greet(self, *people: GreetRequest.Person) -> GreetResponse:
        """Ask any broker for a greeting for each person.

        Raises:
            BrokerError: the broker refuses the request.
            UnsupportedVersion: the broker does not offer Greet.
        """
        asked = self._core.operations.request(ANY_BROKER, GreetRequest(people), GreetResponse, _check)
        return await self._core.perform(asked)


def _check(response: GreetResponse) -> None:
    """Raise the error in a response; retriable errors are retried."""
    if response.error_code != ErrorCode.NONE:
        raise BrokerError(response.error_code, response.error_message or "Greet")
