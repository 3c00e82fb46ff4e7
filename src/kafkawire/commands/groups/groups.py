"""The commands of `kafkawire groups`. Exit status 1 means that a group was refused or a store was unreachable."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Annotated

import typer

from kafkawire.commands.groups.offset_migration import CopiedOffset, Migration, MigrationRefused, Store
from kafkawire.commands.terminal import counted, errors_on_one_line, new_app, print_line, print_table, run_app
from kafkawire.sdk.errors import KafkaWireError

__all__ = ["app", "run"]

app = new_app("Consumer groups and their offsets.")
run = partial(run_app, app)


@app.callback()
def _groups() -> None:
    """Make `migrate-offsets` a subcommand, although it is the only one."""


@app.command()
def migrate_offsets(
    group: Annotated[str, typer.Argument(help="The id of the group; none of its members may be running.")],
    bootstrap: Annotated[str, typer.Option(help="Addresses of brokers: HOST:PORT,…")],
    zookeeper: Annotated[
        str, typer.Option(help="ZooKeeper's address, HOST:PORT,…/CHROOT, as in Kafka's zookeeper.connect.")
    ],
    to: Annotated[Store, typer.Option(help="The store to copy the offsets to; they are read from the other one.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be copied, but copy nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also replace larger offsets with smaller ones.")] = False,
    properties: Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            help="KEY=VALUE for the connection to Kafka, such as security.protocol=SSL, "
            "or to ZooKeeper, such as zookeeper.ssl.client.enable=true.",
        ),
    ] = None,
) -> None:
    """Copy the offsets of a stopped group from ZooKeeper to Kafka, or back.

    A running group moves its offsets itself, with dual_commit_enabled.
    """
    with errors_on_one_line(MigrationRefused, KafkaWireError):
        migration = Migration(group, bootstrap, zookeeper, to, _read_properties(properties or ()))
        copied = asyncio.run(migration.run(is_dry=dry_run, may_go_back=force))
    _show(copied, group, to, is_dry=dry_run)


def _read_properties(given: Sequence[str]) -> dict[str, str]:
    """Return the properties, keyed by name.

    Raises:
        typer.BadParameter: a property has no equals sign.
    """
    properties: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals:
            raise typer.BadParameter(f"expected KEY=VALUE, got {each!r}", param_hint="--property")
        properties[name] = value
    return properties


def _show(copied: Sequence[CopiedOffset], group: str, to: Store, *, is_dry: bool) -> None:
    rows = [
        (each.partition.topic, str(each.partition.partition), str(each.offset), _text(each.former), each.obstacle)
        for each in copied
    ]
    if rows:
        print_table(("topic", "partition", "offset", f"former offset in {to.value}", "left out"), rows)
    count = counted(sum(not each.obstacle for each in copied), "offset")
    print_line(f"{count} of group {group} {'would be' if is_dry else 'were'} copied to {to.value}")


def _text(offset: int | None) -> str:
    return "none" if offset is None else str(offset)
