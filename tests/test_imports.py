"""A program that uses the client loads only the modules needed to connect, and the core needs no extras.

Method: inspect `sys.modules` in a fresh interpreter, which does not depend on the machine's speed; `make bench`
measures the time. For the core, make imports of the extras' packages fail.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SHOW = """
import sys
{statement}
print(*sys.modules)
"""

#: Counts the annotations that `typing.NamedTuple` has to compile because the __future__ import turned them into text.
COUNT_COMPILED = """
import sys, typing
{statement}
kinds = {{kind for module in list(sys.modules.values()) if module.__name__.startswith("kafkawire")
         for kind in vars(module).values() if isinstance(kind, type) and hasattr(kind, "_fields")}}
print(sum(isinstance(each, typing.ForwardRef) for kind in kinds for each in kind.__annotations__.values()))
"""

CLIENT = "from kafkawire import Admin, Consumer, Producer"

#: Packages and modules that the client loads on first use, or never.
NOT_LOADED = {
    "construct", "yaml", "jsonschema", "typer", "click", "rich", "pydantic", "pyarrow", "pyspark",
    "opentelemetry",
    "crc32c", "lz4", "snappy", "cramjam", "zstandard",
    "dataclasses", "datetime", "difflib", "pathlib", "tempfile",
    "kafkawire.codegen", "kafkawire.commands", "kafkawire.conformance", "kafkawire.reference_broker",
    "kafkawire.sdk.protocol.codec", "kafkawire.sdk.protocol.json_form", "kafkawire.sdk.protocol.scram",
    "kafkawire.sdk.protocol.programs", "kafkawire.sdk.protocol.schema", "kafkawire.sdk.protocol.connection",
    "kafkawire.sdk.protocol.tables.apis", "kafkawire.sdk.protocol.tables.error_codes",
    "kafkawire.sdk.protocol.tables.enums.acl_operation", "kafkawire.sdk.protocol.messages.metadata",
    "kafkawire.sdk.protocol.messages.create_topics",
    "kafkawire.otel", "kafkawire.sdk.metrics.catalogue", "kafkawire.sdk.client.otlp", "kafkawire.sdk.client.telemetry",
    "kafkawire.sdk.client.core", "kafkawire.sdk.groups.classic_group", "kafkawire.sdk.transport.connection",
    "kafkawire.sdk.producer.sender", "kafkawire.sdk.consumer.core", "kafkawire.sdk.consumer.group",
    "kafkawire.sdk.records.columns", "kafkawire.sdk.records.compression.lz4", "kafkawire.sdk.records.control",
    "kafkawire.sdk.spark",
    "kafkawire.sdk.groups.assignors.range", "kafkawire.sdk.groups.assignors.sticky",
}  # fmt: skip

#: The packages in pyproject.toml's extras, by import name.
OF_EXTRAS = {
    "aiohttp", "botocore", "click", "gssapi", "jinja2", "kazoo", "numpy", "opentelemetry", "pandas", "puresasl",
    "pyarrow", "pyspark", "rich", "typer", "uvloop", "yaml",
}  # fmt: skip

#: Imports every module except the extras' own, then sends and reads a record through the broker.
USE_CORE = """
import asyncio, pkgutil, sys
sys.modules.update(dict.fromkeys({of_extras}))
import kafkawire
from importlib import import_module
from kafkawire.testing import Broker

left_out = ("kafkawire.codegen", "kafkawire.commands", "kafkawire.sdk.spark", "kafkawire.spark", "kafkawire.otel")
for found in pkgutil.walk_packages(kafkawire.__path__, "kafkawire.", onerror=lambda name: None):
    if not found.name.startswith(left_out) and not found.name.endswith((".native", ".__main__")):
        import_module(found.name)

async def use(servers):
    async with kafkawire.Producer(servers) as producer:
        await producer.send("topic", "value")
    async with kafkawire.Consumer(servers, "topic", group_id="g", auto_offset_reset="earliest") as consumer:
        print((await anext(aiter(consumer))).value)

with Broker() as broker:
    asyncio.run(use(broker.bootstrap))
"""

#: Compiling an annotation takes about 0.03 ms. Modules with large named tuples avoid the __future__ import;
#: small ones need not.
COMPILED_ANNOTATIONS_MAX = 40


#: The default engine, and the one for machines without a compiler. The third engine loads construct.
ENGINES = ("", "python")


def run(program: str, engine: str = "") -> list[str]:
    environment = {**os.environ, "KAFKAWIRE_ENGINE": engine}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.split()


def test_the_package_loads_nothing() -> None:
    loaded = {name for name in run(SHOW.format(statement="import kafkawire")) if name.startswith("kafkawire")}
    assert loaded == {"kafkawire"}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("statement", [CLIENT, "from kafkawire import Producer"])
def test_the_client_loads_what_it_needs(statement: str, engine: str) -> None:
    loaded = set(run(SHOW.format(statement=statement), engine))
    assert "kafkawire.sdk.producer.producer" in loaded
    by_asyncio = set(run(SHOW.format(statement="import asyncio")))  # dataclasses imports it, from Python 3.14 onwards
    assert (loaded - by_asyncio) & NOT_LOADED == set()


def test_few_annotations_are_compiled() -> None:
    (compiled,) = run(COUNT_COMPILED.format(statement=CLIENT))
    assert int(compiled) <= COMPILED_ANNOTATIONS_MAX


def test_the_core_needs_no_extra() -> None:
    assert run(USE_CORE.format(of_extras=sorted(OF_EXTRAS))) == ["b'value'"]
