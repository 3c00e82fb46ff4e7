"""`kafkawire pipeline`: audit stored topics with Spark, and run a demo of the audit.

kafkawire pipeline audit /var/lib/kafka/data --out audit
kafkawire pipeline audit --bootstrap broker:9092 --out audit
spark-submit --master spark://host:7077 …/commands/pipeline/pipeline.py audit /var/lib/kafka/data --out /shared/audit
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import webbrowser
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.text import Text

from kafkawire.commands.pipeline.spark_progress import SparkProgress
from kafkawire.commands.pipeline.spark_session import start_spark, starting_quickly, why_not
from kafkawire.commands.streams import say
from kafkawire.commands.terminal import new_app, print_line, run_app
from kafkawire.sdk.errors import ConfigurationError, KafkaWireError

__all__ = ["app", "reason_of", "run", "time_ms"]

app = new_app("Work on stored topics with Spark; needs `pip install 'kafkawire[cli,spark]'` and Java 17 or newer.")
run = partial(run_app, app)

#: The beginning of a traceback's last line.
_EXCEPTION: Final = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Failed): ")

#: The beginning of the line with the cause in a Java stack trace.
_CAUSE: Final = "Caused by: "

#: If the segments are smaller than this, auditing them takes less time than a JVM needs to optimize the queries.
_SMALL_BYTES: Final = 1 << 30

#: The exit status if there is a finding that `--fail-on` selects.
_FOUND: Final = 3

#: The severities of findings, worst first, and their styles.
_STYLES: Final = {"bad": "bold red", "warning": "yellow", "note": "blue"}


@app.command()
def audit(
    out: Annotated[str, typer.Option(help="Folder for the audit. An existing audit there is brought up to date.")],
    path: Annotated[
        list[str] | None, typer.Argument(help="Log segments, or folders that contain them at any depth.")
    ] = None,
    bootstrap: Annotated[str, typer.Option(help="Read from brokers instead: host:port,host:port.")] = "",
    command_config: Annotated[
        str, typer.Option(help="Properties file with connection options, as for Kafka's tools.")
    ] = "",
    topics: Annotated[str, typer.Option(help="Topic names, separated by commas; all topics by default.")] = "",
    since: Annotated[
        str, typer.Option(help="Count only batches from this time onwards, such as 2026-03-01 or 2026-03-01T08:00.")
    ] = "",
    until: Annotated[str, typer.Option(help="Count only batches before this time.")] = "",
    split_bytes: Annotated[
        str, typer.Option(help="How many bytes of segments each task reads, such as 1g; 128m by default.")
    ] = "",
    master: Annotated[
        str,
        typer.Option(
            help="Spark's master, such as spark://host:7077; by default this machine or spark-submit's choice."
        ),
    ] = "",
    reread: Annotated[bool, typer.Option("--reread", help="Read everything again, not just new data.")] = False,
    fail_on: Annotated[
        str,
        typer.Option(help="Exit with status 3 on a finding of this severity or worse: bad, warning or note."),
    ] = "",
    report: Annotated[bool, typer.Option(help="Write report.html next to the tables.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers and findings as JSON.")] = False,
) -> None:
    """Find out what topics contain and what is wrong with them. Write Parquet tables and a report.

    The exit status is 0 if the audit succeeds, whatever it found, unless --fail-on makes it 3; 1 if the audit fails;
    2 if an argument is invalid.
    """
    if bool(path) == bool(bootstrap):
        raise typer.BadParameter("either folders or --bootstrap is required", param_hint="PATH")
    if command_config and not bootstrap:
        raise typer.BadParameter("requires --bootstrap", param_hint="--command-config")
    if split_bytes and bootstrap:
        raise typer.BadParameter("cannot be combined with --bootstrap", param_hint="--split-bytes")
    if fail_on and fail_on not in _STYLES:
        raise typer.BadParameter(f"expected one of {', '.join(_STYLES)}, got {fail_on!r}", param_hint="--fail-on")
    since_ms, until_ms = time_ms("--since", since), time_ms("--until", until)
    if since_ms is not None and until_ms is not None and since_ms > until_ms:
        raise typer.BadParameter(f"{since!r} is later than --until {until!r}", param_hint="--since")
    options: dict[str, Any] = {
        "topics": [name for name in map(str.strip, topics.split(",")) if name] or None,
        "since_ms": since_ms,
        "until_ms": until_ms,
        "with_report": report,
        "reread": reread,
    }
    if split_bytes:
        options["split_bytes"] = _size("--split-bytes", split_bytes)
    if command_config:
        options["client"] = _client(command_config)
    result = _audit(bootstrap or path, out, master, options)
    if as_json:
        print(json.dumps(_json(result), indent=1))
    else:
        _print(result)
    if fail_on and any(finding.severity in _as_bad_as(fail_on) for finding in result.findings):
        raise typer.Exit(_FOUND)


@app.command()
def demo(
    out: Annotated[
        str, typer.Option(help="Folder for the audit, which must be new or empty; a temporary folder by default.")
    ] = "",
    browser: Annotated[bool, typer.Option(help="Open the report in a browser, if there is one.")] = True,
) -> None:
    """Audit a day of a small shop. A broker writes the data; a damaged copy is audited, and the report is shown."""
    from kafkawire.commands.pipeline.shop_day import write_day

    if out and Path(out).exists() and not (Path(out).is_dir() and not any(Path(out).iterdir())):
        raise typer.BadParameter(f"{out} must be new or empty", param_hint="--out")
    _check_spark()
    with tempfile.TemporaryDirectory(prefix="kafkawire-audit-") as folder:
        print_line("a broker writes a day of a small shop's data …")
        try:
            day = write_day(Path(folder))
        except (KafkaWireError, OSError, TimeoutError) as error:
            print_line(f"failed: {type(error).__name__}: {error}", "bold red")
            raise typer.Exit(1) from error
        print_line(f"{day.records:,} records in {day.topics} topics; in a copy, {day.damage}")
        target = out or str(Path(tempfile.mkdtemp(prefix="kafkawire-audit-")) / "audit")
        result = _audit([str(day.segments)], target, "", {})
    _print(result)
    if browser and result.report is not None and _has_display():
        webbrowser.open(result.report.as_uri())


def _as_bad_as(severity: str) -> list[str]:
    """Return the given severity and all worse ones."""
    return [*_STYLES][: [*_STYLES].index(severity) + 1]


def time_ms(option: str, text: str) -> int | None:
    """Convert a time from the command line to ms since the epoch, in UTC if it has no time zone; None for no text.

    Raises:
        typer.BadParameter: the text is not a time.
    """
    if not text:
        return None
    if text.isascii() and text.isdigit() and len(text) > 8:
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"expected 2026-03-01, 2026-03-01T08:00+01:00 or ms since 1970, got {text!r}", param_hint=option
        ) from None
    found = int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
    if found < 0:
        raise typer.BadParameter(f"expected 1970 or later, got {text!r}", param_hint=option)
    return found


def _size(option: str, text: str) -> Any:
    """Return the number of bytes of segments that one task reads.

    Raises:
        typer.BadParameter: the text is not a size, or the size is too small.
    """
    from kafkawire.sdk.spark.option_values import parse_size
    from kafkawire.sdk.spark.segments.options import SPLIT_BYTES_MIN

    try:
        return parse_size(SPLIT_BYTES_MIN)(option, text)
    except ConfigurationError as error:
        raise typer.BadParameter(f"{text!r}: {error.reason}", param_hint=option) from None


def _client(path: str) -> dict[str, str]:
    """Return the entries of a properties file.

    Raises:
        typer.BadParameter: the file cannot be read.
    """
    from kafkawire.sdk.storage.properties import parse_properties

    try:
        return {entry.name: entry.value for entry in parse_properties(Path(path).read_text("utf-8"))}
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"cannot read {path}: {error}", param_hint="--command-config") from None


def _audit(source: str | list[str] | None, out: str, master: str, options: dict[str, Any]) -> Any:
    """Audit brokers or folders, with a progress line; end the program if that fails."""
    _check_spark()
    from kafkawire.sdk.spark.audit.audit import audit as audit_segments
    from kafkawire.sdk.spark.audit.audit import audit_brokers

    console = Console(stderr=True)
    spark = None
    try:
        if not isinstance(source, str):
            _prepare(source or ())
        spark = start_spark("kafkawire audit", master or None)
        with SparkProgress(spark.sparkContext.statusTracker(), console) as progress:
            if isinstance(source, str):
                return audit_brokers(spark, source, out, on_step=progress.step, **options)
            return audit_segments(spark, source or (), out, on_step=progress.step, **options)
    except (KafkaWireError, OSError) as error:
        say("kafkawire pipeline", error)
        raise typer.Exit(2 if isinstance(error, ConfigurationError) else 1) from None
    except Exception as error:
        if not type(error).__module__.startswith(("py4j", "pyspark")):
            raise
        say("kafkawire pipeline", f"Spark failed: {reason_of(error)}")
        raise typer.Exit(1) from None
    finally:
        if spark is not None:
            spark.stop()


def _prepare(paths: Sequence[str]) -> None:
    """Check the segments before Spark starts, to report wrong paths immediately, and to start quickly for small ones.

    Remote file systems, which take longer to list, are not listed here, so they are listed only once.
    """
    from kafkawire.sdk.spark.segments.options import option_texts, parse_options
    from kafkawire.sdk.spark.segments.storage import SegmentFiles

    options = parse_options(option_texts(list(paths), {}))
    if any("://" in path for path in options.paths):
        return
    segments, _ = SegmentFiles(options.paths).look()
    if sum(segment.size_bytes for segment in segments) < _SMALL_BYTES:
        starting_quickly()


def reason_of(error: Exception) -> str:
    """Return Spark's error and the cause from Java on one line."""
    lines = [line.strip(": ") for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):  # py4j's error comes before Java's
        causes = [line.removeprefix(_CAUSE) for line in lines if line.startswith(_CAUSE)]
        return f"{lines[1]}: {causes[-1]}" if causes else lines[1]
    if len(lines) > 1 and lines[0].startswith("An exception was thrown from the Python worker"):  # a traceback follows
        return next((line for line in lines if _EXCEPTION.match(line)), lines[0])
    return lines[0] if lines else type(error).__name__


def _check_spark() -> None:
    reason = why_not()
    if reason is not None:
        say("kafkawire pipeline", f"Spark cannot run: {reason}")
        raise typer.Exit(1)


def _json(result: Any) -> dict[str, Any]:
    return {
        "out": str(result.folder),
        "version": result.version,
        "report": None if result.report is None else str(result.report),
        **result.numbers,
        "findings": [finding._asdict() for finding in result.findings],
    }


def _print(result: Any) -> None:
    console = Console(soft_wrap=True, highlight=False)
    numbers = result.numbers
    print_line(", ".join(_many(numbers[f"{noun}s"], noun) for noun in ("record", "partition", "topic")))
    for finding in result.findings:
        mark = Text("● ", style=_STYLES[finding.severity])
        console.print(mark + Text(finding.text) + Text(f"  {finding.detail}", style="dim"))
    print_line(f"tables: {result.folder / 'tables'}")
    if result.report is not None:
        print_line(f"report: {result.report}")


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _has_display() -> bool:
    """Return whether there is a display on which a browser can open a window."""
    import os

    return sys.stdout.isatty() and (
        sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    )


if __name__ == "__main__":  # when run by spark-submit
    sys.exit(run("pipeline.py", sys.argv[1:]))
