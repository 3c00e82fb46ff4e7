"""`kafkawire broker`: run the reference broker in this process.

Tests start and stop the broker often, so it must start quickly; therefore `arguments.py` parses its arguments without
Typer.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence

from kafkawire.commands.arguments import Parser
from kafkawire.commands.broker.settings import DEFAULT_LISTEN, read_settings
from kafkawire.commands.streams import announce, say
from kafkawire.reference_broker.config.config_file import read_config
from kafkawire.reference_broker.process import serve
from kafkawire.reference_broker.server import Broker
from kafkawire.sdk.errors import ConfigurationError, KafkaWireError

__all__ = ["parser_for", "run"]

_log = logging.getLogger("kafkawire.broker")


def run(program: str, arguments: Sequence[str]) -> int:
    """Run the broker until a signal stops it; return the exit status.

    Args:
        program: the program's name as the user called it, for the help and errors.
        arguments: the arguments after the program's name.
    """
    parser = parser_for(program)
    given = parser.parse_args(arguments)
    if given.json and not given.check:
        parser.error("--json requires --check")
    if given.check:
        return _check(parser, given)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)
    config = None
    try:
        config = None if given.config is None else read_config(given.config)
        for remark in () if config is None else config.remarks():
            _log.warning("%s", remark)
        settings = read_settings(parser, given, config)
        files = "in memory only" if settings.data is None else f"files in {settings.data}"
        serve(
            settings.listen,
            settings.data,
            settings.options,
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


def _check(parser: Parser, given: argparse.Namespace) -> int:
    """Print what the configuration means; return 0 if the broker would start, and 1 if not."""
    # Imported here, since a start does not need them.
    from kafkawire.commands.broker.check import check, refused
    from kafkawire.commands.broker.report import as_json, as_text

    config = None
    try:
        config = None if given.config is None else read_config(given.config)
        report = check(read_settings(parser, given, config), config)
    except (KafkaWireError, OSError) as error:
        report = refused(error, config)
    print(as_json(report) if given.json else as_text(report), end="")
    return 0 if report.would_start else 1


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
        help=f"where to listen; port 0 picks a free port (default: listeners in --config, or {DEFAULT_LISTEN})",
    )
    parser.add_argument(
        "--option",
        type=_option,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a broker option, by its own name or Kafka's, such as num.partitions=3; repeatable",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="start nothing: print what the configuration means, what has no effect and what is unsafe; exit with "
        "status 1 if the broker would not start",
    )
    parser.add_argument("--json", action="store_true", help="with --check: print the report as JSON")
    return parser


def _option(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got {text!r}")
    return name, value
