"""Output to a pipe is plain and complete, and a user's mistake ends the command with one line.

Method: capture the output of tables and lines, and raise errors that a user can correct, and one that a user cannot.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from kafkawire.codegen.located import SchemaError
from kafkawire.commands.terminal import counted, errors_on_one_line, print_line, print_table, run_app


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("NAME", "VALUE"), [("short", "[1] " + "x" * 200), ("much longer", "")], ["red"])
    assert capsys.readouterr().out.split("\n") == [
        "NAME         VALUE",
        "short        [1] " + "x" * 200,
        "much longer",
        "",
    ]


def test_table_in_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    print_table(("NAME", "VALUE"), [("a", "[bold]1[/]")], ["red"])
    out = capsys.readouterr().out
    assert "\x1b[31m" in out
    assert "[bold]1[/]" in out


def test_counted() -> None:
    assert [counted(number, "file") for number in range(3)] == ["0 files", "1 file", "2 files"]


def test_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_line("[b]not markup[/b] " + "x" * 200, "red")
    assert capsys.readouterr().out == "[b]not markup[/b] " + "x" * 200 + "\n"


@pytest.mark.parametrize(
    "error",
    [
        SchemaError(Path("a.yaml"), 3, "wrong"),
        FileNotFoundError(2, "No such file", "wrong"),
        KeyError("wrong\nin two lines"),
    ],
)
def test_error(capsys: pytest.CaptureFixture[str], error: Exception) -> None:
    with pytest.raises(typer.Exit) as caught, errors_on_one_line(KeyError):
        raise error
    assert caught.value.exit_code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert "wrong" in line


def test_other_errors_are_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError), errors_on_one_line():
        raise ZeroDivisionError


def test_run_app(capsys: pytest.CaptureFixture[str]) -> None:
    app = typer.Typer()

    @app.command()
    def answer(status: int) -> None:
        raise typer.Exit(status)

    assert [run_app(app, "ask", [status]) for status in ("0", "1")] == [0, 1]
    assert run_app(app, "ask", ["perhaps"]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("ask: Invalid value for ")
    assert output.err.count("\n") == 1


def test_run_app_on_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    app = typer.Typer()

    @app.command()
    def write(path: Path) -> None:
        path.write_text("")

    assert run_app(app, "write", [str(tmp_path / "file")]) == 0
    assert run_app(app, "write", [str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"write: [Errno 21] Is a directory: '{tmp_path}'\n"
