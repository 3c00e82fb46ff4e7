"""Share consumers of this project that follow commands; see tests/kafka/share_drivers.py."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from kafkawire import BrokerError, ShareConsumer, ShareDelivery, TopicPartition
from kafkawire.errors import KafkaWireError

__all__: list[str] = []

Delivery = ShareDelivery[bytes, bytes]

CLOSE_MS = 20_000


class Member:
    """One share consumer."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._consumer: ShareConsumer[bytes, bytes] | None = None
        self._held: dict[str, Delivery] = {}

    @property
    def consumer(self) -> ShareConsumer[bytes, bytes]:
        """The consumer, which was opened."""
        assert self._consumer is not None, "the member is not open"
        return self._consumer

    async def done(self, command: dict[str, Any]) -> Any:
        """Follow a command, and return what there is to show."""
        match command["do"]:
            case "open":
                self._consumer = ShareConsumer(
                    self._bootstrap,
                    command["topics"],
                    group_id=command["group"],
                    share_acknowledgement_mode=command["mode"],
                    share_acquire_mode=command["acquire"],
                    max_poll_records=command["records"],
                )
                await self._consumer.start()
            case "poll":
                return await self._poll(command["count"], command["ms"])
            case "acknowledge":
                for place, kind in command["kinds"].items():
                    getattr(self._held[place], kind.lower())()
            case "renew":
                return await self._renew(command["places"])
            case "commit":
                return await self._commit()
            case "subscribe":
                await self.consumer.subscribe(command["topics"])
            case "close":
                await self.consumer.close(CLOSE_MS)
            case other:
                raise ValueError(other)
        return None

    async def _poll(self, count: int, timeout_ms: int) -> list[Any]:
        found: list[Delivery] = []
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            several = await self.consumer.getmany(min(timeout_ms, 200))
            found += [each for deliveries in several.values() for each in deliveries]
            if len(found) >= count or time.monotonic() >= deadline:
                break
        found.sort(key=lambda each: (each.record.topic, each.record.partition, each.record.offset))
        self._held |= {_place(each): each for each in found}
        return [[_place(each), (each.record.value or b"").decode(), each.delivery_count] for each in found]

    async def _renew(self, places: list[str]) -> dict[str, str | None]:
        outcomes: dict[str, str | None] = {}
        for place in places:
            partition = place.rpartition("/")[0]
            outcomes.setdefault(partition, None)
            try:
                await self._held[place].renew()
            except BrokerError as error:
                outcomes[partition] = error.code.name
        return outcomes

    async def _commit(self) -> dict[str, str | None]:
        outcomes: dict[str, str | None] = {}
        for each in await self.consumer.commit(CLOSE_MS):
            name = _partition(each.partition)
            outcomes[name] = outcomes.get(name) or _code(each.error)
        return outcomes


def _place(delivery: Delivery) -> str:
    record = delivery.record
    return f"{record.topic}/{record.partition}/{record.offset}"


def _partition(partition: TopicPartition) -> str:
    return f"{partition.topic}/{partition.partition}"


def _code(error: BaseException | None) -> str | None:
    if error is None:
        return None
    return error.code.name if isinstance(error, BrokerError) else type(error).__name__


async def _follow(bootstrap: str) -> None:
    """Follow commands until standard input ends; those to different members run at the same time."""
    members: dict[str, Member] = {}
    last: dict[str, asyncio.Task[None]] = {}

    async def follow(member: Member, command: dict[str, Any], before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await before
        answer: dict[str, Any] = {"id": command["id"]}
        try:
            answer["result"] = await member.done(command)
        except KafkaWireError as error:
            answer["error"] = _code(error)
        print(json.dumps(answer), flush=True)

    while line := await asyncio.to_thread(sys.stdin.readline):
        command = json.loads(line)
        name = command["member"]
        member = members.setdefault(name, Member(bootstrap))
        last[name] = asyncio.create_task(follow(member, command, last.get(name)))


if __name__ == "__main__":
    asyncio.run(_follow(*sys.argv[1:]))
