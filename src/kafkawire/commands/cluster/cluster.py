"""The commands of `kafkawire cluster`. Exit status 1 means that the cluster refused a command or a member failed.

`start` runs the cluster in the foreground until a signal or `stop`; the other commands are sent from another terminal.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kafkawire.commands.cluster.cluster_table import (
    MEMBER_COLUMNS,
    PARTITION_COLUMNS,
    Rows,
    member_rows,
    partition_rows,
)
from kafkawire.commands.cluster.replica_lag import ClusterView, look_at
from kafkawire.commands.streams import announce
from kafkawire.commands.terminal import counted, errors_on_one_line, new_app, print_line, print_table, run_app
from kafkawire.local_cluster.cluster_folder import ClusterError, ClusterFolder, ClusterRecord, MemberRecord
from kafkawire.local_cluster.member_state import MemberState
from kafkawire.local_cluster.remote_control import act_on, current_record
from kafkawire.local_cluster.supervisor import ClusterSettings, Supervisor

__all__ = ["app", "run"]

_log = logging.getLogger("kafkawire.cluster")

app = new_app("Run brokers and a ZooKeeper server on this machine. ID is a broker's id, or zookeeper.")
run = partial(run_app, app)

#: How often a live table is redrawn.
_REFRESH_SECONDS: Final = 1.0

#: A live table must fit on one screen.
_PARTITIONS_SHOWN: Final = 40

#: SIGHUP is sent when a terminal is closed.
_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Data = Annotated[Path, typer.Option("--data", metavar="DIR", help="The folder of the cluster.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="The id of a broker, or zookeeper.")]


@app.command()
def start(
    data: Data,
    brokers: Annotated[
        int | None,
        typer.Option(metavar="N", help="The number of brokers; by default, as many as the folder has, or 3."),
    ] = None,
    zookeeper: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="A running ZooKeeper server, as in zookeeper.connect; by default, one is started."
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="A property for all brokers, such as min.insync.replicas=2; repeatable."
        ),
    ] = None,
) -> None:
    """Start a cluster, show its members, and stop it at Ctrl-C; ports and files are kept for the next start."""
    settings = ClusterSettings(brokers, zookeeper, _read_options(option or ()))
    with errors_on_one_line(ClusterError):
        asyncio.run(_run(ClusterFolder(data), settings))


@app.command()
def status(
    data: Data, watch: Annotated[bool, typer.Option("--watch", help="Refresh every second until Ctrl-C.")] = False
) -> None:
    """Show a cluster's members, and its partitions with leader, in-sync replicas and lag."""
    folder = ClusterFolder(data)
    with errors_on_one_line(ClusterError):
        if watch:
            asyncio.run(_watch(folder))
            return
        record, _ = current_record(folder)
        view = asyncio.run(_look(record))
    _print_rows(MEMBER_COLUMNS, member_rows(record, view))
    if view is not None and view.partitions:
        print_line("")
        _print_rows(PARTITION_COLUMNS, partition_rows(view))


@app.command()
def stop(
    data: Data, member: Annotated[str | None, typer.Argument(metavar="[ID]", help="All members by default.")] = None
) -> None:
    """Stop a member as SIGTERM does, or the whole cluster."""
    _act("stop", member, data)


@app.command()
def kill(member: Id, data: Data) -> None:
    """Kill a member, to simulate a crash."""
    _act("kill", member, data)


@app.command()
def pause(member: Id, data: Data) -> None:
    """Pause a member with SIGSTOP; its connections stay open."""
    _act("pause", member, data)


@app.command()
def resume(member: Id, data: Data) -> None:
    """Resume a paused member."""
    _act("resume", member, data)


@app.command()
def restart(member: Id, data: Data) -> None:
    """Start a member with its existing files and port; stop it first if it is running."""
    _act("restart", member, data)


def _act(action: str, member: str | None, data: Path) -> None:
    with errors_on_one_line(ClusterError):
        act_on(ClusterFolder(data), action, member)


def _read_options(given: Sequence[str]) -> dict[str, str]:
    """Return the properties, keyed by name.

    Raises:
        typer.BadParameter: a property has no equals sign.
    """
    options: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals:
            raise typer.BadParameter(f"expected NAME=VALUE, got {each!r}", param_hint="--option")
        options[name.strip()] = value.strip()
    return options


async def _run(folder: ClusterFolder, settings: ClusterSettings) -> None:
    """Run a cluster until a signal or a command stops it; a second signal kills all members."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    supervisor = Supervisor(folder, settings, (lambda member: None) if is_terminal else _report)
    loop = asyncio.get_running_loop()
    stops: list[asyncio.Task[None]] = []

    def stop() -> None:
        stops.append(asyncio.create_task(supervisor.kill() if stops else supervisor.stop()))

    for number in _STOP_SIGNALS:
        # Under nohup, SIGHUP stays ignored. A shell without job control starts background commands with SIGINT ignored.
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, stop)
    with Live(auto_refresh=False) if is_terminal else nullcontext() as live:
        drawing = None if live is None else asyncio.create_task(_draw(supervisor, live))
        try:
            await supervisor.start()
            if live is None and not supervisor.stopped.is_set():
                _announce(supervisor.record, folder)
            await supervisor.stopped.wait()
        finally:
            if drawing is not None:
                drawing.cancel()
            await asyncio.gather(supervisor.stop(), *stops)
            if live is not None:
                live.update(_tables(supervisor.record, None), refresh=True)


async def _draw(supervisor: Supervisor, live: Live) -> None:
    while True:
        record = supervisor.record
        live.update(_tables(record, await _look(record)), refresh=True)
        await asyncio.sleep(_REFRESH_SECONDS)


async def _watch(folder: ClusterFolder) -> None:
    with Live(auto_refresh=False) as live:
        while True:
            record, _ = current_record(folder)
            live.update(_tables(record, await _look(record)), refresh=True)
            await asyncio.sleep(_REFRESH_SECONDS)


async def _look(record: ClusterRecord) -> ClusterView | None:
    running = {int(each.name): each.address for each in record.brokers if each.state is MemberState.RUNNING}
    return await look_at(running) if running else None


def _announce(record: ClusterRecord, folder: ClusterFolder) -> None:
    brokers = counted(len(record.brokers), "broker")
    announce(f"kafkawire cluster: {brokers} on {record.bootstrap}, ZooKeeper on {record.zookeeper_connect}", _log)
    announce(f"files in {folder.path}", _log)


def _report(member: MemberRecord) -> None:
    """Print a line about a member that has changed, for programs and logs."""
    status = "" if member.exit_status is None else f", exit status {member.exit_status}"
    announce(f"{member.full_name} is {member.state.value}{status}", _log)


def _print_rows(columns: Sequence[str], rows: Rows) -> None:
    print_table(columns, rows.cells, rows.styles)


def _tables(record: ClusterRecord, view: ClusterView | None) -> Group:
    """Return both tables for a terminal."""
    parts: list[Table | Text] = [_table(MEMBER_COLUMNS, member_rows(record, view))]
    if view is not None and view.partitions:
        parts += [Text(""), _table(PARTITION_COLUMNS, partition_rows(view, _PARTITIONS_SHOWN))]
        hidden = len(view.partitions) - _PARTITIONS_SHOWN
        if hidden > 0:
            parts.append(Text(f"… and {counted(hidden, 'partition')} in a better state", style="dim"))
    return Group(*parts)


def _table(columns: Sequence[str], rows: Rows) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column)
    for cells, style in zip(rows.cells, rows.styles, strict=True):
        table.add_row(*map(Text, cells), style=style)
    return table
