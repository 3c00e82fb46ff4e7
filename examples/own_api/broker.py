"""A reference broker that serves Greet in addition to its own APIs."""

from __future__ import annotations

from collections import Counter
from typing import Final

from examples.own_api.messages.greet import GreetRequest, GreetResponse
from examples.own_api.tables.apis import APIS, ApiKey
from kafkawire import BrokerError
from kafkawire.protocol import ErrorCode
from kafkawire.testing import ApiHandler, Broker, Call

__all__ = ["Greeter", "greeting_broker"]

HELLO: Final = {"en": "Hello, {}!", "fr": "Bonjour, {} !", "it": "Ciao, {}!"}


class Greeter:
    """Handle Greet, and remember the visitors."""

    def __init__(self) -> None:
        self._visits: Counter[str] = Counter()

    def __call__(self, call: Call, request: GreetRequest) -> GreetResponse:
        """Return a greeting for each person.

        Raises:
            BrokerError: the request lists no people; the broker returns this as an error response.
        """
        if not request.people:
            raise BrokerError(ErrorCode.INVALID_REQUEST, "the list of people is empty")
        return GreetResponse(greetings=[self._greeting(person) for person in request.people])

    def _greeting(self, person: GreetRequest.Person) -> GreetResponse.Greeting:
        self._visits[person.name] += 1
        text = HELLO.get(person.language, HELLO["en"]).format(person.name)
        return GreetResponse.Greeting(person.name, text, self._visits[person.name])


def greeting_broker() -> Broker:
    """Return an in-memory broker that serves Greet."""
    return Broker(ephemeral=True, handlers=[ApiHandler(APIS[ApiKey.GREET], Greeter())])
