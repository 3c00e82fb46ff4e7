"""Show what clients and a broker say to each other: `decoding_proxy.py LISTEN_HOST:PORT BROKER_HOST:PORT`.

Bytes pass unchanged. The broker must advertise LISTEN_HOST:PORT, as clients connect to what it advertises."""

import asyncio
import itertools
import os
import signal
import sys

from kafkawire.protocol import FrameBuffer, FrameTooLarge, ObservedConnection


def show(*words):
    """Print a line; the proxy stops, as if told to, once nobody reads what it shows, as behind `head`."""
    try:
        print(*words, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is written until then
        signal.raise_signal(signal.SIGTERM)


async def pump(reader, writer, decode, name):
    """Pass on the bytes of one side, then their end, and show each frame in them."""
    frames = FrameBuffer()
    while data := await reader.read(65536):
        writer.write(data)
        try:  # before the other side can answer: no other task runs until the next await; b"" lets an error out
            for frame in (each for piece in (data, b"") for each in frames.receive(piece)) if frames else ():
                show(name, decode(frame))
        except FrameTooLarge as error:  # TLS, for one: it passes, but there is nothing more to decode
            show(name, f"<not decoded from here on: {error}>")
            frames = None
        await writer.drain()
    writer.write_eof()


async def relay(client, to_client, broker_address, name):
    """Connect a client to the broker until both have said all, or one has gone."""
    writers, observed = [to_client], ObservedConnection()
    try:
        broker, to_broker = await asyncio.open_connection(*broker_address)
        writers.append(to_broker)
        async with asyncio.TaskGroup() as both:
            both.create_task(pump(client, to_broker, observed.receive_request, f"{name} >"))
            both.create_task(pump(broker, to_client, observed.receive_response, f"{name} <"))
    except* OSError as gone:
        show(name, f"<lost: {gone.exceptions[0]}>")
    finally:
        for writer in writers:
            writer.close()


async def main(listen, broker):
    """Serve until SIGINT or SIGTERM; the end of the loop cancels the relays."""
    numbers, relays, stop = itertools.count(1), set(), asyncio.Event()

    def connected(client, to_client):
        relays.add(task := asyncio.create_task(relay(client, to_client, broker.rsplit(":", 1), next(numbers))))
        task.add_done_callback(relays.discard)

    server = await asyncio.start_server(connected, *listen.rsplit(":", 1))
    show("listening on port", server.sockets[0].getsockname()[1])
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()
    server.close()


if len(sys.argv) != 3 or not all(":" in address for address in sys.argv[1:]):
    print("usage: decoding_proxy.py LISTEN_HOST:PORT BROKER_HOST:PORT", file=sys.stderr)
    sys.exit(2)
asyncio.run(main(*sys.argv[1:]))
