"""`kafkawire conformance`: compare a codec or a broker with Apache Kafka."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from kafkawire.commands.streams import say
from kafkawire.commands.terminal import new_app, run_app
from kafkawire.conformance.report import Suite, summary, write_junit

__all__ = ["app", "run"]

app = new_app("Check codecs and brokers against Apache Kafka.")
run = partial(run_app, app)

_Junit = Annotated[Path | None, typer.Option("--junit", help="Write the results as JUnit XML to this file.")]


@app.command()
def codec(
    vectors: Annotated[Path | None, typer.Option(help="A folder of vectors; by default, the package's own.")] = None,
    engine: Annotated[
        list[str] | None,
        typer.Option(
            help="An engine: native, python or construct; repeatable. By default, all engines that are built."
        ),
    ] = None,
    junit: _Junit = None,
) -> None:
    """Check the codecs against golden vectors from Apache Kafka. Bytes are decoded, and values encoded."""
    from kafkawire.conformance.codec_suite import VECTORS, run_vectors
    from kafkawire.sdk.protocol.engines.selection import ENGINES, native

    folder = vectors or VECTORS
    if not folder.is_dir():
        raise typer.BadParameter(f"no such folder: {folder}", param_hint="--vectors")
    suites: list[Suite] = []
    for name in engine or ENGINES:
        if name not in ENGINES:
            raise typer.BadParameter(
                f"unknown engine {name!r}; expected one of {', '.join(ENGINES)}", param_hint="--engine"
            )
        if name == "native" and native is None:
            typer.echo(f"engine {name}: skipped, because the extension is not built")
            if engine:
                raise typer.Exit(2)
            continue
        typer.echo(f"engine {name}")
        for suite in run_vectors(folder, name):
            suite.name = f"{name} {suite.name}"
            suites.append(suite)
            for line in suite.lines():
                typer.echo(f"  {line}")
    _close(suites, junit)


def _close(suites: list[Suite], junit: Path | None) -> None:
    if junit is not None:
        write_junit(suites, junit)
    typer.echo(summary(suites))
    if any(suite.failures for suite in suites):
        raise typer.Exit(1)


@app.command("run")
def run_suite(
    bootstrap: Annotated[str, typer.Option(help="HOST:PORT of a plaintext listener.")],
    topic: Annotated[str, typer.Option(help="The topic to use in requests; it need not exist.")] = "",
    group: Annotated[str, typer.Option(help="The group to use in requests; it need not exist.")] = "",
    timeout_seconds: Annotated[float, typer.Option(help="How long to wait for a response.")] = 10.0,
    junit: _Junit = None,
) -> None:
    """Call every API and version that a running broker advertises. Also send it malformed frames."""
    from kafkawire.conformance.broker_suite import BrokerSuite
    from kafkawire.conformance.requests import Names
    from kafkawire.sdk.errors import ConfigurationError
    from kafkawire.sdk.transport.wire import DEFAULT_PORT, Address

    try:
        host, port = Address.parse("--bootstrap", bootstrap, DEFAULT_PORT)
    except ConfigurationError as error:
        say("error", error)
        raise typer.Exit(2) from None
    names = Names(topic=topic or Names().topic, group=group or Names().group)
    suites: list[Suite] = []
    try:
        for suite in BrokerSuite(host, port, names, timeout_seconds).run():
            suites.append(suite)
            for line in suite.lines():
                typer.echo(line)
    except OSError as error:
        say(bootstrap, error)
        raise typer.Exit(2) from error
    _close(suites, junit)
