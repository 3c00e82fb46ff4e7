"""Every public name is declared, exists and is documented, and no other name is public.

Method: import every module without an underscore, compare its `__all__` with what it defines, and look up the names in
`kafkawire` in the modules that define them.
"""

from __future__ import annotations

import ast
import builtins
import collections.abc
import datetime
import inspect
import pathlib
import pkgutil
import re
import subprocess
import sys
import textwrap
import types
import typing
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import pytest
import typer

import kafkawire
import kafkawire.errors
import kafkawire.metrics
import kafkawire.sync
import kafkawire.testing
from kafkawire.sdk.consumer.reading.bounded_reads import BoundedRecords

#: Modules that need a package missing from a plain install.
OPTIONAL = {"kafkawire.sdk.spark": "pyspark", "kafkawire.spark": "pyspark", "kafkawire.otel": "opentelemetry"}

#: Names in the annotations of public classes that users need not import, with the reasons.
NOT_NEEDED = {
    ("Consumer.records", "BoundedRecords"): "iterated over, and closed",
    ("ConsumerBatch.to_arrow", "RecordBatch"): "of pyarrow",
    ("ConsumerBatch.to_arrow", "pyarrow"): "a library",
    ("FeatureMetadata", "VersionRange"): "a pair of numbers, in kafkawire.protocol",
    ("Network.open", "ConnectionState"): "only who writes a network needs it",
    ("Network.open", "Wire"): "only who writes a network needs it",
}

#: Names in the documentation of `kafkawire` that look like types: states of groups and transactions, a pyarrow class.
NO_TYPES = {
    *{"CompletingRebalance", "Assigning", "Reconciling", "Empty", "NotReady", "PreparingRebalance", "Stable"},
    *{"CompleteAbort", "CompleteCommit", "Dead", "Ongoing", "PrepareAbort", "PrepareCommit", "PrepareEpochFence"},
    *{"Table", "User"},
}
#: Classes whose constructors applications call.
CREATED_BY_USERS = ("Admin", "Broker", "Consumer", "Producer", "ShareConsumer")
CLIENTS = ("Admin", "Consumer", "Producer", "ShareConsumer")


def public_modules() -> list[str]:
    """Return the names of all modules except extensions, whose classes are reached through the modules around them."""
    found = ["kafkawire"]
    for module in pkgutil.walk_packages(kafkawire.__path__, "kafkawire."):
        if not module.name.endswith(".engines.native"):
            found.append(module.name)
    return found


def load(name: str) -> ModuleType:
    """Import a module, or skip the test if its optional package is not installed."""
    for prefix, package in OPTIONAL.items():
        if name.startswith(prefix):
            pytest.importorskip(package, reason=f"{name} needs {package}")
    return import_module(name)


def test_declared_names_exist_once(subtests: pytest.Subtests) -> None:
    for name in public_modules():
        with subtests.test(name=name):
            module = load(name)
            declared = list(getattr(module, "__all__", ()))
            assert len(declared) == len(set(declared))
            assert [name for name in declared if not hasattr(module, name)] == []


def test_defined_names_are_declared(subtests: pytest.Subtests) -> None:
    """A module's `__all__` lists its public classes and functions; commands can be reached through their app."""
    for name in public_modules():
        with subtests.test(name=name):
            module = load(name)
            if any(isinstance(value, typer.Typer) for value in vars(module).values()):
                continue
            defined = {
                key
                for key, value in vars(module).items()
                if (inspect.isclass(value) or inspect.isfunction(value))
                and value.__module__ == name
                and not key.startswith("_")
            }
            assert defined - set(getattr(module, "__all__", ())) == set()


def test_face_declares_what_it_gives() -> None:
    """Each name in `kafkawire` is documented, and is public in the module that defines it."""
    for name in kafkawire.__all__:
        value = getattr(kafkawire, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert name in import_module(f"kafkawire.{kafkawire._HOMES[name]}").__all__
            assert inspect.getdoc(value)


def test_isinstance_takes_every_class() -> None:
    """This includes the protocols that applications implement, such as `RebalanceListener`."""
    kinds = [getattr(module, name) for module in (kafkawire, kafkawire.metrics) for name in module.__all__]
    refused = set()
    for kind in kinds:
        try:
            if inspect.isclass(kind) and not typing.is_typeddict(kind):
                isinstance(None, kind)
        except TypeError:
            refused.add(kind.__name__)
    assert refused == set()


def test_annotations_can_be_evaluated(subtests: pytest.Subtests) -> None:
    """The names in `kafkawire` and two more are enough, although the clients' modules do not import all of them."""
    names = {name: getattr(kafkawire, name) for name in kafkawire.__all__}
    names |= {"datetime": datetime.datetime, "BoundedRecords": BoundedRecords}
    for kind in (getattr(module, name) for module in (kafkawire, kafkawire.sync) for name in CLIENTS):
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            if name == "__init__" or not name.startswith("_"):
                with subtests.test(name=f"{kind.__qualname__}.{name}"):
                    typing.get_type_hints(method, localns=names)


def annotated_names(kind: type) -> Iterator[tuple[str, ast.expr]]:
    """Yield the annotations that a class's users see: those on its public methods, its fields and its constructor."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(body, ast.ClassDef)
    for node in body.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            created_by_users = node.name == "__init__" and kind.__name__ in CREATED_BY_USERS
            if node.name[0] == "_" and not created_by_users:
                continue
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
            annotations = [*(each.annotation for each in given if each is not None), node.returns]
            yield from ((f"{kind.__name__}.{node.name}", each) for each in annotations if each is not None)
        elif isinstance(node, ast.AnnAssign) and hasattr(kind, "_fields"):
            yield kind.__name__, node.annotation


def test_every_type_in_an_annotation_of_the_face_is_public() -> None:
    """The types that users need for annotations are in `kafkawire`, `kafkawire.errors` or `kafkawire.testing`."""
    classes = [kafkawire.testing.Broker, *(getattr(kafkawire, name) for name in kafkawire.__all__)]
    written = [each for each in classes if inspect.isclass(each) and not issubclass(each, int | dict)]
    missing = set()
    for kind in written:
        if kind not in (kafkawire.Record, kafkawire.Delivery):  # classes of the extensions
            variables = {name for name, value in vars(import_module(kind.__module__)).items() if is_variable(value)}
            for where, annotation in annotated_names(kind):
                unknown = {name for name in names_of(annotation) if not is_known(name)}
                missing |= {(where, name) for name in unknown - variables}
    assert missing == NOT_NEEDED.keys()


def is_variable(value: object) -> bool:
    return isinstance(value, typing.TypeVar)


def test_every_type_in_the_documentation_of_the_face_is_public() -> None:
    """Types in public signatures can be imported from a public module."""
    modules = [kafkawire, kafkawire.testing, import_module("kafkawire.errors"), import_module("kafkawire.sync")]
    missing = set()
    for name in kafkawire.__all__:
        kind = getattr(kafkawire, name)
        if not inspect.isclass(kind) or not kind.__module__.startswith("kafkawire."):
            continue
        for member in (kind, *(each for key, each in vars(kind).items() if not key.startswith("_"))):
            for named in re.findall(r"`([A-Z][a-z]\w+)", inspect.getdoc(member) or ""):
                if not any(named in module.__all__ for module in modules):
                    missing.add(named)
    assert missing == NO_TYPES


def names_of(annotation: ast.expr) -> Iterator[str]:
    for node in ast.walk(annotation):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from names_of(ast.parse(node.value, mode="eval").body)
        elif isinstance(node, ast.Name) and node.id != "enums":
            yield node.id


def is_known(name: str) -> bool:
    """Return whether users can import a name, from this package or from Python."""
    homes = (builtins, collections.abc, datetime, pathlib, types, typing)
    ours = (*kafkawire.__all__, *kafkawire.errors.__all__, *kafkawire.testing.__all__)
    return name in ours or any(hasattr(home, name) for home in homes)


def test_face_holds_nothing_else() -> None:
    """After a fresh `import kafkawire`, the package has its declared names and its modules, and nothing else."""
    script = (
        "import kafkawire, pkgutil\n"
        "modules = {module.name for module in pkgutil.iter_modules(kafkawire.__path__)}\n"
        "shown = {name for name in dir(kafkawire) if not name.startswith('_') or name in kafkawire.__all__}\n"
        "print(sorted(shown ^ set(kafkawire.__all__) - modules))\n"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"
