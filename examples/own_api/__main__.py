"""Greet a few people: run `python -m examples.own_api` in the folder above `examples`."""

from __future__ import annotations

import asyncio

from examples.own_api.broker import greeting_broker
from examples.own_api.client import Greetings
from examples.own_api.messages.greet import GreetRequest
from kafkawire import BrokerError


async def main(servers: str) -> None:
    """Greet the same people twice, then send a request without any names."""
    Person = GreetRequest.Person
    client = Greetings(servers)
    await client.start()
    try:
        for _ in range(2):
            response = await client.greet(Person("Ann"), Person("Luc", "fr"))
            print(*(f"{each.text} ({each.visits})" for each in response.greetings))
        await client.greet()
    except BrokerError as error:
        print(error)
    finally:
        await client.close()


if __name__ == "__main__":
    with greeting_broker() as broker:
        asyncio.run(main(broker.bootstrap))
