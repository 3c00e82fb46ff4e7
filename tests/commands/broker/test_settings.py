"""The arguments and the properties file of `kafkawire broker` combine into the settings of a start.

Method: read arguments with the command's parser, with and without a file; the command line must win.
"""

from __future__ import annotations

import pytest

from kafkawire.commands.broker.broker import parser_for
from kafkawire.commands.broker.settings import DEFAULT_LISTEN, StartSettings, read_settings
from kafkawire.reference_broker.config.config_file import read_config
from kafkawire.sdk.errors import ConfigurationError

FILE = "listeners=IN://127.0.0.1:9093\nnum.partitions=2\nlog.dirs=/from/file\n"


def settings(tmp_path, *arguments: str, text: str | None = FILE) -> StartSettings:
    config = None
    if text is not None:
        path = tmp_path / "server.properties"
        path.write_text(text)
        config = read_config(path)
    parser = parser_for("kafkawire broker")
    return read_settings(parser, parser.parse_args(arguments), config)


@pytest.mark.parametrize(
    ("arguments", "data", "options"),
    [
        ((), "/from/file", {"listeners": "IN://127.0.0.1:9093", "num.partitions": "2"}),
        (("--data", "/other"), "/other", {"listeners": "IN://127.0.0.1:9093", "num.partitions": "2"}),
        (("--ephemeral",), None, {"listeners": "IN://127.0.0.1:9093", "num.partitions": "2"}),
        (("--listen", "localhost:0"), "/from/file", {"num.partitions": "2"}),
        (("--option", "num_partitions=5"), "/from/file", {"listeners": "IN://127.0.0.1:9093", "num_partitions": "5"}),
    ],
)
def test_the_command_line_overrides_the_file(tmp_path, arguments, data, options):
    found = settings(tmp_path, *arguments)
    assert (found.data, found.options) == (data, options)


def test_options_that_kafka_does_not_have(tmp_path):
    text = "log.dirs=/from/file\nmetrics_listen=127.0.0.1:9404\nslow_request_ms=500\n"
    assert settings(tmp_path, text=text).options == {"metrics_listen": "127.0.0.1:9404", "slow_request_ms": "500"}
    found = settings(tmp_path, "--option", "slow_request_ms=7", text=text)
    assert found.options == {"metrics_listen": "127.0.0.1:9404", "slow_request_ms": "7"}


def test_the_address_without_any_listener(tmp_path):
    assert str(settings(tmp_path, "--ephemeral", text=None).listen) == DEFAULT_LISTEN


def test_an_address_that_is_none(tmp_path):
    with pytest.raises(ConfigurationError, match="--listen"):
        settings(tmp_path, "--ephemeral", "--listen", "nowhere")
