"""Write a few records and read them in a group: `python examples/produce_consume.py [BOOTSTRAP_SERVERS]`."""

import asyncio
import sys

from kafkawire import Admin, BrokerError, Consumer, NewTopic, Producer


async def main(servers: str) -> None:
    async with Admin(servers) as admin:
        try:
            await admin.create_topics(NewTopic("greetings", partitions=1))
        except BrokerError as error:
            print(error)  # TOPIC_ALREADY_EXISTS on the second run

    async with Producer(servers, compression="lz4") as producer:
        delivery = producer.send("greetings", "hello", key="en", headers={"tone": b"friendly"})
        print(await delivery)
        await producer.send_many("greetings", ["bonjour", "ciao", "salve"])

    async with Consumer(servers, "greetings", group_id="readers", auto_offset_reset="earliest") as consumer:
        async for record in consumer:
            print(record)
            if record.value == b"salve":
                break


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"))
