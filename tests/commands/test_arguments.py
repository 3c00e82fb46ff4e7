"""The parser of the core's commands accepts only full names, and reports errors in one printable line."""

from __future__ import annotations

import pytest

from kafkawire.commands.arguments import Option, Parser


@pytest.fixture
def parser() -> Parser:
    parser = Parser("kafkawire command", "Do something.")
    parser.add_argument("--folder")
    return parser


def test_help_says_what_it_does(parser: Parser) -> None:
    assert parser.format_help().startswith("usage: kafkawire command [-h] [--folder FOLDER]\n\nDo something.\n")


def test_options_for_the_completion(parser: Parser) -> None:
    parser.add_argument("--quiet", action="store_true", help="say nothing")
    parser.add_argument("--size", "-s", default=7, help="in bytes (default: %(default)s)")
    parser.add_argument("file")
    assert parser.options == [
        Option("--folder", True, ""),
        Option("--quiet", False, "say nothing"),
        Option("--size", True, "in bytes (default: 7)"),
    ]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--fold", "x"], "kafkawire command: unrecognized arguments: --fold x\n"),
        (["--folder"], "kafkawire command: argument --folder: expected one argument\n"),
        (["\x1b[31m"], "kafkawire command: unrecognized arguments: \\x1b[31m\n"),
    ],
)
def test_a_mistake_is_one_line(
    parser: Parser, arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        parser.parse_args(arguments)
    assert end.value.code == 2
    assert capsys.readouterr() == ("", line)
