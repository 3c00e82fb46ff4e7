"""The blocking clients have the same methods, arguments, types and documentation as the asyncio clients.

Method: compare the signatures of each pair of classes; `PAIRS`, `NAMES` and `TYPES` define the correspondence. If a
method is missing, the failure shows the text to add.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any
from unittest.mock import create_autospec

import pytest

import kafkawire
from kafkawire import sync

PAIRS: dict[type, type] = {
    kafkawire.Admin: sync.Admin,
    kafkawire.Consumer: sync.Consumer,
    kafkawire.Producer: sync.Producer,
    kafkawire.ShareConsumer: sync.ShareConsumer,
    kafkawire.Transaction: sync.Transaction,
}

#: The blocking class's names for the asyncio class's methods.
NAMES = {"__aenter__": "__enter__", "__aexit__": "__exit__", "__aiter__": "__iter__"}

#: Patterns for the asyncio class's annotations, and what the blocking class has instead; the first match applies.
TYPES = {
    r"\bAsyncGenerator\[(.*), None\]$": r"Generator[\1, None, None]",
    r"\bAsyncIterator\b": "Iterator",
    r"\bRecordStream\b": "RecordIterator",
    r"\bShareStream\b": "ShareIterator",
    r"\bBoundedRecords\[(.*)\]$": r"Generator[Record[\1], None, None]",
    r"\bAbstractAsyncContextManager\b": "AbstractContextManager",
}

BOTH = list(PAIRS.items())

#: Keyword-only arguments.
BY_NAME = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)

#: Methods that do more than delegate; the tests of their classes cover them.
OF_THEIR_OWN = {"__init__", "batches", "getbatches", "getmany", "records", "transaction", "within"}


def members(kind: type) -> dict[str, Any]:
    """Return a class's members, keyed by name: its public methods and properties, and those behind `with` and `for`."""
    return {
        name: inspect.getattr_static(kind, name)
        for name in dir(kind)
        if not name.startswith("_") or name in ("__init__", *NAMES, *NAMES.values())
    }


def expected(name: str, member: Any) -> str:
    """Return the signature that the blocking class must have for a member of the asyncio class."""
    if isinstance(member, property):
        assert member.fget is not None
        return f"@property {expected(name, member.fget)}"
    signature = inspect.signature(member)
    parameters = [each.replace(annotation=blocking_type(each.annotation)) for each in signature.parameters.values()]
    returned = blocking_type(signature.return_annotation)
    signature = signature.replace(parameters=parameters, return_annotation=returned)
    return f"def {NAMES.get(name, name)}{str(signature).replace(chr(39), '')}"


def blocking_type(annotation: Any) -> Any:
    if isinstance(annotation, str):
        for pattern, replacement in TYPES.items():
            if re.search(pattern, annotation):
                return re.sub(pattern, replacement, annotation)
    return annotation


def stub(name: str, member: Any, of: type) -> str:
    """Return the source of a method that the blocking class lacks."""
    function: Any = member.fget if isinstance(member, property) else member
    summary = (inspect.getdoc(function) or "").partition("\n")[0].rstrip(".")
    given = ", ".join(
        f"*{each.name}" if each.kind is each.VAR_POSITIONAL
        else f"{each.name}={each.name}" if each.kind is each.KEYWORD_ONLY
        else each.name
        for each in list(inspect.signature(function).parameters.values())[1:]
    )  # fmt: skip
    call = f"self._inner.{name}" if isinstance(member, property) else f"self._inner.{name}({given})"
    waits = inspect.iscoroutinefunction(function)
    value = f"result_of({', '.join([f'self._inner.{name}', *filter(None, [given])])})" if waits else call
    return f'{expected(name, member)}:\n    """{summary}; see `kafkawire.{of.__name__}.{name}`."""\n    return {value}'


@pytest.mark.parametrize(("asynchronous", "blocking"), BOTH, ids=lambda kind: kind.__module__)
def test_nothing_is_missing_and_nothing_is_more(asynchronous: type, blocking: type) -> None:
    wanted = {NAMES.get(name, name): member for name, member in members(asynchronous).items()}
    missing = [stub(name, wanted[name], asynchronous) for name in sorted(wanted.keys() - members(blocking).keys())]
    assert not missing, "add to the blocking class:\n" + "\n".join(missing)
    assert members(blocking).keys() == wanted.keys()


@pytest.mark.parametrize(("asynchronous", "blocking"), BOTH, ids=lambda kind: kind.__module__)
def test_signatures(asynchronous: type, blocking: type) -> None:
    found = members(blocking)
    for name, member in members(asynchronous).items():
        mine = found[NAMES.get(name, name)]
        assert expected(NAMES.get(name, name), mine) == expected(name, member)
        assert not inspect.iscoroutinefunction(mine)
        assert not inspect.isasyncgenfunction(mine)


def first_sentence(documentation: str) -> str:
    """Return the first sentence of a docstring, without its full stop, in a blocking class's terms."""
    paragraph = documentation.partition("\n\n")[0].replace("\n", " ")
    return re.split(r"\.(?:\s|$)", paragraph)[0].replace("`async with`", "`with`")


@pytest.mark.parametrize(("asynchronous", "blocking"), BOTH, ids=lambda kind: kind.__module__)
def test_documentation(asynchronous: type, blocking: type) -> None:
    """The first sentences agree; the blocking class's may end after a clause and refer to the other class."""
    assert inspect.getdoc(blocking)
    for name, member in members(asynchronous).items():
        if name in NAMES or name == "__init__":
            continue
        function, mine = member, members(blocking)[name]
        theirs, ours = inspect.getdoc(function), inspect.getdoc(mine)
        assert theirs
        assert ours
        whole, said = first_sentence(theirs), first_sentence(ours)
        clause = said.removesuffix(f"; see `kafkawire.{asynchronous.__name__}.{name}`")
        assert whole == clause or re.match(re.escape(clause) + r"[,;:]", whole), f"{blocking.__name__}.{name}"
        assert said == whole or said != clause, f"{blocking.__name__}.{name} does not say where the rest is described"


@pytest.mark.parametrize(("asynchronous", "blocking"), BOTH, ids=lambda kind: kind.__module__)
def test_arguments_and_results_are_handed_over(asynchronous: type, blocking: type) -> None:
    for name, member in members(asynchronous).items():
        if name in NAMES or name in OF_THEIR_OWN:
            continue
        inner = create_autospec(asynchronous, instance=True)
        face: Any = object.__new__(blocking)
        face._inner = inner
        if isinstance(member, property):
            assert getattr(face, name) is getattr(inner, name)
            continue
        parameters = list(inspect.signature(member).parameters.values())[1:]
        given = {each.name: object() for each in parameters}
        by_name = {each.name: given[each.name] for each in parameters if each.kind in BY_NAME}
        called, method = getattr(face, name), getattr(inner, name)
        result = called(*(given[each.name] for each in parameters if each.name not in by_name), **by_name)
        ((received, named),) = method.call_args_list
        bound = inspect.signature(member).bind(inner, *received, **named).arguments
        del bound["self"]
        kinds = {each.name: each.kind for each in parameters}
        for key, value in given.items():
            whole = {inspect.Parameter.VAR_POSITIONAL: (value,), inspect.Parameter.VAR_KEYWORD: {key: value}}
            assert bound.pop(key) == whole.get(kinds[key], value), (name, key)
        assert not bound, name
        returns = inspect.signature(member).return_annotation not in ("None", None)
        assert result is (method.return_value if returns else None), name


def test_differences_are_noticed() -> None:
    async def waits(self: object, timeout_ms: int = 0) -> int:
        """Wait."""
        return timeout_ms

    def blocks(self: object, timeout_ms: int = 0) -> int:
        return timeout_ms

    def differs(self: object, timeout_ms: int | None = 0) -> int:
        return timeout_ms or 0

    signatures: list[Callable[..., Any]] = [waits, blocks, differs]
    one, two, three = (expected("wait", each) for each in signatures)
    assert one == two != three
    assert "return result_of(self._inner.wait, timeout_ms)" in stub("wait", waits, kafkawire.Consumer)
