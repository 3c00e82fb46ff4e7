"""What the arguments and the configuration file of `kafkawire broker` amount to, for a start and for `--check`."""

from __future__ import annotations

import argparse
from typing import NamedTuple

from kafkawire.commands.arguments import Parser
from kafkawire.reference_broker.config.cluster_options import ClusterOptions
from kafkawire.reference_broker.config.config_file import ConfigFile
from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.sdk.transport.wire import Address

__all__ = ["DEFAULT_LISTEN", "StartSettings", "read_settings"]

#: Where a broker listens if neither `--listen` nor the option `listeners` is given.
DEFAULT_LISTEN = "127.0.0.1:9092"


class StartSettings(NamedTuple):
    """The settings with which a broker starts.

    Attributes:
        listen: the address to listen on, unless the option `listeners` is set.
        data: the folder for the broker's files; None for no files.
        options: see `BrokerOptions` and `ClusterOptions`; the names may be Kafka's, and values are not checked yet.
    """

    listen: Address
    data: str | None
    options: dict[str, object]


def read_settings(parser: Parser, given: argparse.Namespace, config: ConfigFile | None) -> StartSettings:
    """Return the settings; the command line overrides the properties file.

    Args:
        parser: reports arguments that contradict each other, and ends the program.
        given: the arguments.
        config: the properties file; None if there is none.

    Raises:
        ConfigurationError: `--listen` is not an address.
    """
    options = _options(parser, given, config)
    data = _data(parser, given, config)
    return StartSettings(Address.parse("--listen", given.listen or DEFAULT_LISTEN, lowest_port=0), data, options)


def _options(parser: Parser, given: argparse.Namespace, config: ConfigFile | None) -> dict[str, object]:
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
    return options


def _data(parser: Parser, given: argparse.Namespace, config: ConfigFile | None) -> str | None:
    if given.ephemeral:
        if given.data:
            parser.error("--ephemeral and --data are mutually exclusive")
        return None
    data: str | None = given.data or (None if config is None else config.data_dir)
    if data is None:
        parser.error("the following arguments are required: --data (or --ephemeral, or log.dirs in --config)")
    return data
