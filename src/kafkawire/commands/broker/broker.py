"""`kafkawire broker`: run the reference broker in this process.

Tests start and stop the broker often, so it must start quickly; therefore `arguments.py` parses its arguments without
Typer.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence

from kafkawire.commands.arguments import Parser
from kafkawire.commands.streams import announce, say
from kafkawire.reference_broker.config.cluster_options import ClusterOptions
from kafkawire.reference_broker.config.config_file import ConfigFile, read_config
from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.reference_broker.process import serve
from kafkawire.reference_broker.server import Broker
from kafkawire.sdk.errors import ConfigurationError, KafkaWireError
from kafkawire.sdk.transport.wire import Address

__all__ = ["parser_for", "run"]

_log = logging.getLogger("kafkawire.broker")

_LISTEN = "127.0.0.1:9092"


def run(program: str, arguments: Sequence[str]) -> int:
    """Run the broker until a signal stops it; return the exit status.

    Args:
        program: the program's name as the user called it, for the help and errors.
        arguments: the arguments after the program's name.
    """
    parser = parser_for(program)
    given = parser.parse_args(arguments)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)
    config = None
    try:
        config = None if given.config is None else read_config(given.config)
        options, data = _settings(parser, given, config)
        files = "in memory only" if data is None else f"files in {data}"
        serve(
            Address.parse("--listen", given.listen or _LISTEN, lowest_port=0),
            data,
            options,
            lambda broker: announce(f"kafkawire broker on {_addresses(broker)}, {files}", _log),
        )
    except ConfigurationError as error:
        say(program, error if config is None else config.placed(error))
        return 2
    except (KafkaWireError, OSError, ValueError) as error:
        say(program, error)
        return 1
    return 0


def _addresses(broker: Broker) -> str:
    """Return the addresses for clients; if there are several listeners, include their names."""
    if len(broker.addresses) == 1:
        return broker.bootstrap
    return " ".join(f"{name}://{address}" for name, address in broker.addresses.items())


def _settings(
    parser: Parser, given: argparse.Namespace, config: ConfigFile | None
) -> tuple[dict[str, object], str | None]:
    """Return the options and the folder (None for no files); the command line overrides the properties file."""
    for remark in () if config is None else config.remarks():
        _log.warning("%s", remark)
    known = {**BrokerOptions.KAFKA_NAMES, **ClusterOptions.KAFKA_NAMES}
    own = {known.get(name, name) for name, _ in given.option}
    if given.listen is not None:
        own.add("listeners")
        if any(name == "listeners" for name, _ in given.option):
            parser.error("--listen and --option listeners=… are mutually exclusive")
    options: dict[str, object] = {}
    if config is not None:
        options = {name: value for name, value in config.options.items() if known.get(name, name) not in own}
    options.update(given.option)
    data = given.data or (None if config is None else config.data_dir)
    if given.ephemeral:
        if given.data:
            parser.error("--ephemeral and --data are mutually exclusive")
        return options, None
    if data is None:
        parser.error("the following arguments are required: --data (or --ephemeral, or log.dirs in --config)")
    return options, data


def parser_for(program: str) -> Parser:
    """Return the parser of the arguments.

    Args:
        program: the program's name as the user called it, for the help and errors.
    """
    parser = Parser(
        program, "Run the reference broker until it is interrupted. Print its address once it accepts connections."
    )
    parser.add_argument("--data", metavar="FOLDER", help="folder for the broker's files; created if it does not exist")
    parser.add_argument("--ephemeral", action="store_true", help="keep everything in memory and write no files")
    parser.add_argument(
        "--config", metavar="FILE", help="properties file with Kafka's option names, such as server.properties"
    )
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help=f"where to listen; port 0 picks a free port (default: listeners in --config, or {_LISTEN})",
    )
    parser.add_argument(
        "--option",
        type=_option,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a broker option, by its own name or Kafka's, such as num.partitions=3; repeatable",
    )
    return parser


def _option(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got {text!r}")
    return name, value
