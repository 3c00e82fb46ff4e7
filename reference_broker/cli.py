"""The command line of the broker: `kafkawire broker`."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from kafkawire.sdk.errors import KafkaWireError

__all__ = ["app"]

#: Ports are uint16.
MAX_PORT = 65535

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def broker(
    data: Annotated[Path, typer.Option(help="Folder of its files; created if it does not exist.")],
    listen: Annotated[str, typer.Option(help="HOST:PORT to listen on; port 0 takes a free one.")] = "127.0.0.1:9092",
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A broker option, by its name or Kafka's; repeatable."),
    ] = None,
) -> None:
    """Run the reference broker until it is interrupted; prints its address once it accepts connections."""
    from kafkawire.reference_broker.server import serve
    from kafkawire.sdk.transport.wire import Address

    host, separator, port = listen.rpartition(":")
    if not separator or not port.isdigit() or int(port) > MAX_PORT:
        raise typer.BadParameter(f"{listen!r} is not HOST:PORT", param_hint="--listen")
    options: dict[str, object] = {}
    for given in option or ():
        name, separator, value = given.partition("=")
        if not separator:
            raise typer.BadParameter(f"{given!r} is not NAME=VALUE", param_hint="--option")
        options[name] = value
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)
    try:
        serve(
            Address(host.strip("[]"), int(port)),
            data,
            options,
            lambda broker: print(f"kafkawire broker on {broker.bootstrap}, files in {data}", flush=True),
        )
    except (KafkaWireError, OSError, ValueError) as error:
        print(f"kafkawire broker: {error}", file=sys.stderr)
        raise typer.Exit(1) from error
