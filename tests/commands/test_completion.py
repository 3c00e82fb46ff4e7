"""Completion offers a shell the possible next words on a command line, for every command and both kinds of parser.

Method: set the bash script's environment variables in this process.
"""

from __future__ import annotations

import pytest

from kafkawire.commands.main import COMMANDS, main


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(monkeypatch, capsys)


class Shell:
    """A bash that requests completions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._patch = monkeypatch
        self._capsys = capsys

    def complete(self, line: str) -> list[str]:
        """Return the possible completions of a line's last word, which may be empty."""
        self._patch.setenv("_KAFKAWIRE_COMPLETE", "complete_bash")
        self._patch.setenv("COMP_WORDS", line)
        self._patch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        with pytest.raises(SystemExit) as end:
            main([])
        output = self._capsys.readouterr()
        assert (end.value.code, output.err) == (0, "")
        return output.out.split()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("kafkawire ", list(COMMANDS)),
        ("kafkawire co", ["codegen", "conformance"]),
        ("kafkawire nothing --", ["--install-completion", "--show-completion", "--help"]),
        ("kafkawire codegen ex", ["explain"]),
        ("kafkawire codegen explain --ba", ["--batch"]),
        ("kafkawire codegen show --form c", ["construct"]),
        ("kafkawire demo --sp", ["--spark"]),
        ("kafkawire pipeline audit --fail", ["--fail-on"]),
        (
            "kafkawire broker --",
            ["--data", "--ephemeral", "--config", "--listen", "--option", "--check", "--json", "--help"],
        ),
        ("kafkawire broker --ephemeral --l", ["--listen"]),
        ("kafkawire dump --max", ["--max-bytes", "--max-batch-bytes"]),
        ("kafkawire dump file --js", ["--json"]),
    ],
)
def test_what_could_follow(shell: Shell, line: str, words: list[str]) -> None:
    assert shell.complete(line) == words


@pytest.mark.parametrize("line", ["kafkawire dump ", "kafkawire broker --data ", "kafkawire dump --topic x"])
def test_what_the_shell_knows_better(shell: Shell, line: str) -> None:
    """Where a file or an arbitrary value is expected, no word is offered, so the shell offers file names."""
    assert shell.complete(line) == []


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")  # else pytest's parent may pass for a shell
    with pytest.raises(SystemExit) as end:
        main(["--show-completion", name])
    assert end.value.code == 0
    assert f"_KAFKAWIRE_COMPLETE=complete_{name}" in capsys.readouterr().out
