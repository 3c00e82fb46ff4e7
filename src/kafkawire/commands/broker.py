"""`kafkawire broker`: run the reference broker in this process.

Its arguments are read with the standard library alone: a broker that tests start and stop has to be up at once.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from kafkawire.reference_broker.server import serve
from kafkawire.sdk.errors import ConfigurationError, KafkaWireError
from kafkawire.sdk.transport.wire import Address

__all__ = ["run"]


class _Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def run(program: str, arguments: Sequence[str]) -> int:
    """Run the broker until a signal ends it, and return the exit status.

    Args:
        program: what the user called, for the help and in front of errors.
        arguments: what followed.
    """
    given = _parser(program).parse_args(arguments)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)
    try:
        serve(
            Address.parse("--listen", given.listen, lowest_port=0),
            given.data,
            dict(given.option),
            lambda broker: print(f"kafkawire broker on {broker.bootstrap}, files in {given.data}", flush=True),
        )
    except (KafkaWireError, OSError, ValueError) as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 2 if isinstance(error, ConfigurationError) else 1
    return 0


def _parser(program: str) -> argparse.ArgumentParser:
    parser = _Parser(
        prog=program,
        description="Run the reference broker until it is interrupted; prints its address once it accepts connections.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--data", type=Path, required=True, metavar="FOLDER", help="folder of its files; created if it does not exist"
    )
    parser.add_argument(
        "--listen",
        default="127.0.0.1:9092",
        metavar="HOST:PORT",
        help="where to listen; port 0 takes a free one (default: %(default)s)",
    )
    parser.add_argument(
        "--option",
        type=_option,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the broker, by its name here or in Kafka's documentation, as num.partitions=3; repeatable",
    )
    return parser


def _option(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value
