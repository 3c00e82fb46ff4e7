"""`kafkawire` lists its commands without loading them, and reports errors in one line.

Method: run `main` in this process, or in a fresh one if the loaded modules or the end of the process matter.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from kafkawire import __version__
from kafkawire.commands import main as module
from kafkawire.commands.main import COMMANDS, INTERRUPTED, Command, main

SHOW_MODULES = """
import sys
from kafkawire.commands.main import main
status = main()
print("LOADED", *sorted(name for name in sys.modules if name.startswith("kafkawire")))
raise SystemExit(status)
"""


#: Makes imports of these packages fail, as if they were not installed.
WITHOUT_CLI = "import sys; sys.modules.update(jinja2=None, rich=None, typer=None, yaml=None)"


def run(*arguments: str, code: int = 0, first: str = "") -> str:
    program = f"{first}\n{SHOW_MODULES}"
    result = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert result.returncode == code, result.stderr
    return result.stdout + result.stderr


def test_help_loads_no_command() -> None:
    output = run("--help")
    for name, command in COMMANDS.items():
        assert f"  {name} " in output
        assert command.help in output
    assert output.splitlines()[-1] == (
        "LOADED kafkawire kafkawire.commands kafkawire.commands.main kafkawire.commands.streams kafkawire.sdk "
        "kafkawire.sdk.version"
    )


def test_without_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert capsys.readouterr().out.startswith("usage: kafkawire COMMAND")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"kafkawire {__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_can_run_and_has_a_help(name: str) -> None:
    assert "run" in import_module(COMMANDS[name].module).__all__
    help_text = run(name, "--help")
    assert f"kafkawire {name}" in help_text.splitlines()[0] + help_text.splitlines()[1]


def test_a_command_gets_its_arguments() -> None:
    output = run("codegen", "list", "FetchRequest", "--kind", "request")
    assert "messages/fetch.yaml" in output
    assert "kafkawire.reference_broker" not in output


def test_help_of_a_command_of_a_command() -> None:
    assert "Usage: kafkawire codegen show" in run("codegen", "show", "--help")


@pytest.mark.parametrize("name", ["codegen", "conformance", "demo", "pipeline"])
def test_help_is_what_was_written(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`[spark]` is not swallowed as markup, and the list of commands shows whole sentences."""
    monkeypatch.setenv("COLUMNS", "80")

    def shown(*arguments: str) -> str:
        assert main([name, *arguments, "--help"]) == 0
        return " ".join(capsys.readouterr().out.split())

    app = import_module(COMMANDS[name].module).app
    assert "..." not in shown().replace("[ARGS]...", "")
    for command in app.registered_commands:
        of_command = [] if name == "demo" else [command.name or command.callback.__name__]
        first, *_ = command.callback.__doc__.split("\n\n")
        assert " ".join(first.split()) in shown(*of_command)


def test_help_names_the_extra(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "--help"]) == 0
    assert "pip install 'kafkawire[cli,spark]'" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["nothing"], "kafkawire: no such command: nothing; expected one of broker, cluster, codegen, conformance"),
        (["codgen"], "kafkawire: no such command: codgen; did you mean codegen?"),
        (["x" * 100_000], f"kafkawire: no such command: {'x' * 60}…; expected one of broker"),
        (["\x1b[31m"], r"kafkawire: no such command: \x1b[31m; expected one of broker"),
        (["dump", "--\x1b[31m", "file"], r"kafkawire dump: unrecognized arguments: --\x1b[31m"),
        (["broker", "--ephemeral", "--\x1b[31m"], r"kafkawire broker: unrecognized arguments: --\x1b[31m"),
        (["codegen", "\x1b[31m"], r"kafkawire codegen: No such command '\x1b[31m'"),
        (["--verbose"], "kafkawire: no such option: --verbose; expected one of broker, cluster, codegen, conformance"),
        (["codegen", "nothing"], "kafkawire codegen: No such command 'nothing'."),
        (["codegen", "list", "--no-such-option"], "kafkawire codegen: No such option: --no-such-option"),
        (["conformance", "codec", "--vectors", "nowhere"], "Invalid value for --vectors: no such folder: nowhere"),
        (["broker"], "kafkawire broker: the following arguments are required: --data"),
    ],
)
def test_a_mistake_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], line: str) -> None:
    try:
        status = main(arguments)
    except SystemExit as end:  # how argparse ends a command
        status = int(str(end.code))
    output = capsys.readouterr()
    assert (status, output.out) == (2, "")
    assert line in output.err
    assert output.err.count("\n") == 1


@pytest.mark.parametrize("arguments", ["codegen list", "conformance codec", "broker --data nowhere", "demo"])
def test_an_engine_that_does_not_exist(arguments: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKAWIRE_ENGINE", "bogus")
    command, *_ = words = arguments.split()
    _, *errors = run(*words, code=2).splitlines()
    assert errors == [f"kafkawire {command}: KAFKAWIRE_ENGINE='bogus': expected one of native, python, construct"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("codegen list", "kafkawire codegen: typer is not installed (pip install 'kafkawire[cli]')"),
        ("conformance codec", "kafkawire conformance: typer is not installed (pip install 'kafkawire[cli]')"),
        ("demo --help", "kafkawire demo: typer is not installed (pip install 'kafkawire[cli]')"),
        ("pipeline audit", "kafkawire pipeline: typer is not installed (pip install 'kafkawire[cli,spark]')"),
        ("--show-completion", "kafkawire: typer is not installed (pip install 'kafkawire[cli]')"),
        ("dump --schemas schemas .", "kafkawire dump: yaml is not installed (pip install 'kafkawire[cli]')"),
    ],
)
def test_an_extra_that_is_not_installed(arguments: str, line: str) -> None:
    _, *errors = run(*arguments.split(), code=2, first=WITHOUT_CLI).splitlines()
    assert errors == [line]


def test_only_the_reference_needs_jinja() -> None:
    without_jinja = "import sys; sys.modules.update(jinja2=None)"
    assert "messages/fetch.yaml" in run("codegen", "list", "FetchRequest", first=without_jinja)
    _, *errors = run("codegen", "docs", "--out", "nowhere", code=2, first=without_jinja).splitlines()
    assert errors == ["kafkawire codegen: jinja2 is not installed (pip install 'kafkawire[cli]')"]


def test_commands_of_the_core(tmp_path: Path) -> None:
    (tmp_path / "leader-epoch-checkpoint").write_text("0\n0\n")
    assert "leader-epoch-checkpoint" in run("dump", str(tmp_path), first=WITHOUT_CLI)
    assert "usage: kafkawire broker" in run("broker", "--help", first=WITHOUT_CLI)


def test_other_modules_that_are_missing_are_defects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "lost", Command("kafkawire.commands.no_such_module", ""))
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        main(["lost"])


def test_interrupt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(program: str, arguments: list[str]) -> int:
        assert (program, arguments) == ("kafkawire wait", ["--long"])
        signal.raise_signal(signal.SIGINT)
        return 0

    monkeypatch.setitem(COMMANDS, "wait", Command(module.__name__, ""))
    monkeypatch.setattr(module, "run", interrupted, raising=False)
    assert main(["wait", "--long"]) == INTERRUPTED
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize("arguments", [["--help"], ["codegen", "show", "ApiVersionsResponse", "3", "--form", "python"]])
def test_a_terminal_without_unicode(encoding: str, arguments: list[str]) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "kafkawire.commands.main", *arguments],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout.isascii()
