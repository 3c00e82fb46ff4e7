"""Show the traffic between clients and a broker: `decoding_proxy.py LISTEN_HOST:PORT BROKER_HOST:PORT`.

Bytes are passed on unchanged. The broker must advertise LISTEN_HOST:PORT, since clients connect to that address."""

import asyncio
import itertools
import signal
import sys
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable

from kafkawire.protocol import FrameBuffer, FrameTooLarge, ObservedConnection


async def pump(reader: StreamReader, writer: StreamWriter, decode: Callable[[bytes], object], name: str) -> None:
    """Pass on the bytes from one side, and then the end of its stream; show each frame."""
    frames: FrameBuffer | None = FrameBuffer()
    while data := await reader.read(65536):
        writer.write(data)
        try:  # before the other side can respond: no other task runs until the next await; b"" raises a pending error
            for frame in (each for piece in (data, b"") for each in frames.receive(piece)) if frames else ():
                print(name, decode(frame), flush=True)
        except FrameTooLarge as error:  # for example, TLS: the bytes are passed on, but cannot be decoded
            print(name, f"<not decoded from here on: {error}>", flush=True)
            frames = None
        await writer.drain()
    writer.write_eof()


async def relay(client: StreamReader, to_client: StreamWriter, broker: str, name: int) -> None:
    """Connect a client to the broker until both have finished, or one has disconnected."""
    writers, observed = [to_client], ObservedConnection()
    try:
        from_broker, to_broker = await asyncio.open_connection(*broker.rsplit(":", 1))
        writers.append(to_broker)
        async with asyncio.TaskGroup() as both:
            both.create_task(pump(client, to_broker, observed.receive_request, f"{name} >"))
            both.create_task(pump(from_broker, to_client, observed.receive_response, f"{name} <"))
    except* OSError as gone:
        print(name, f"<lost: {gone.exceptions[0]}>", flush=True)
    finally:
        is_stopped = (task := asyncio.current_task()) is not None and task.cancelling() > 0
        for writer in writers:  # once the proxy is stopped, nothing waits until the other side has read all bytes
            (writer.transport.abort if is_stopped else writer.close)()


async def main(listen: str, broker: str) -> None:
    """Serve until SIGINT or SIGTERM; the end of the loop cancels the relays."""
    numbers, relays, stop = itertools.count(1), set[asyncio.Task[None]](), asyncio.Event()

    def connected(client: StreamReader, to_client: StreamWriter) -> None:
        relays.add(task := asyncio.create_task(relay(client, to_client, broker, next(numbers))))
        task.add_done_callback(relays.discard)

    server = await asyncio.start_server(connected, *listen.rsplit(":", 1))
    print("listening on port", server.sockets[0].getsockname()[1], flush=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()
    server.close()


sys.exit("usage: decoding_proxy.py LISTEN BROKER") if len(sys.argv) != 3 else asyncio.run(main(*sys.argv[1:]))
