"""The texts generated from the option declarations name every option, and drift is detected.

Method: search the generated texts for every option, then write them to an empty folder and damage them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire.reference_broker.config.cluster_options import ClusterOptions
from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.sdk.client.options import CLIENTS, ConsumerOptions
from kafkawire.sdk.options import Options, number, option
from tools import options

PAGE = Path("docs/options.md")


def test_the_files_are_up_to_date() -> None:
    assert options.differing() == []
    assert options.main(["--check"]) == 0


def test_drift_is_noticed_and_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(options, "ROOT", tmp_path)
    files = options.generated_files()
    for path in files:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    assert options.main(["--check"]) == 1
    assert options.main([]) == 0
    assert {path: (tmp_path / path).read_text("utf-8") for path in files} == files
    assert options.main(["--check"]) == 0
    (tmp_path / PAGE).write_text("# Options\n", "utf-8")
    capsys.readouterr()
    assert options.main(["--check"]) == 1
    assert capsys.readouterr().out == (
        "docs/options.md differs from the declared options; run `python -m tools.options`\n"
    )
    assert (tmp_path / PAGE).read_text("utf-8") == "# Options\n"


def test_the_page_lists_every_option_with_what_it_does() -> None:
    page = options.generated_files()[PAGE]
    for kind in (*CLIENTS.values(), BrokerOptions, ClusterOptions):
        for name, declared in kind.OPTIONS.items():
            assert f"| `{name}` | {f'`{declared.kafka_name}`' if declared.kafka_name else ''} |" in page
    assert "| `linger_ms` | `linger.ms` | `int`, 0 to 2,147,483,647 | 5 | how long a batch that" in page
    resets = '`Literal["latest", "earliest", "none"] \\| timedelta`, in a mapping also "by_duration:…"'
    assert f"| `auto_offset_reset` | `auto.offset.reset` | {resets} | `latest` | where to" in page
    assert "| `range,cooperative-sticky` | the assignors that" in page
    assert "`queue.buffering.max.ms` |" in page
    assert "| the user's password for PLAIN and SCRAM. | `sasl.plain.password` |" in page
    assert "- `heartbeat_interval_ms` is less than `session_timeout_ms`; otherwise the coordinator" in page
    assert "- `linger_ms` + `request_timeout_ms` is at most `delivery_timeout_ms`; otherwise a record" in page


def test_what_an_option_does_is_read_from_the_docstrings() -> None:
    class Derived(ConsumerOptions):
        """More options.

        Attributes:
            more: what more
                there is: this.
        """

        more: int = number(1, 0)

    about = options.described(Derived)
    assert about["more"] == "what more there is: this."
    assert about["check_crcs"] == "whether to verify the checksums of batches."
    assert about["client_id"] == "the name of this client in the brokers' logs and quotas."
    assert about.keys() == Derived.OPTIONS.keys()


def test_a_long_annotation_is_broken_as_the_formatter_breaks_it() -> None:
    class Wide(Options):
        mode: str = option("a", lambda name, value: value, f'Literal["{"a" * 60}", "{"b" * 60}"]')

    text = options._typed_dict("WideKeywords", "TypedDict", "Wide.", Wide.OPTIONS)
    assert text.splitlines()[3:] == ["    mode: Literal[", f'        "{"a" * 60}", "{"b" * 60}"', "    ]"]
