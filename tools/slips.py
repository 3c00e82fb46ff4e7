"""Find slips that a tired engineer could make in a source.

A slip of the kind `state` omits a line that resets or records a value, one of the kind `names` uses a similar name
    instead of the right one, and one of the kind `order` swaps two steps. Slips that change nothing, or that a type
    checker would refuse immediately, are left out: an assignment that is overwritten before it is read is not omitted,
    a name that is not bound yet is not used, and two independent assignments are not swapped. Two more kinds of steps
    are not swapped: `yield from ()`, and adding a callback to a future that the function has created, since the
    callback runs later than either step.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import pairwise
from typing import NamedTuple

from tools.faults import Fault, Kind, SourceText, sorted_faults

__all__ = ["find_slips"]

#: Methods of containers and events that record or reset a value and normally do not raise. Only calls whose result is
#: unused are considered.
NOTES = {"add", "append", "appendleft", "clear", "discard", "extend", "pop", "popleft", "remove", "set", "update"}

#: Methods that can fail through no fault of the program, in which case values recorded before them may be wrong.
FAILING = {"begin", "commit", "flush", "load", "read", "rename", "send", "start", "submit", "sync", "truncate", "write"}

#: Methods of texts, paths and named tuples, which are immutable.
PURE = {
    *("_replace", "casefold", "endswith", "lower", "lstrip", "partition", "removeprefix", "removesuffix", "rpartition"),
    *("rstrip", "startswith", "strip", "to_bytes", "upper", "with_name", "with_suffix"),
}

#: Functions that return an asyncio future, whose callbacks run only after the current turn of the event loop.
FUTURES = {"create_future", "create_task", "ensure_future", "new_task"}

#: Words that are opposites or neighbours of each other in names.
NEIGHBOURS = [
    *(("start", "end"), ("first", "last"), ("min", "max"), ("base", "last"), ("begin", "end"), ("next", "last")),
    *(("old", "new"), ("before", "after"), ("left", "right"), ("low", "high"), ("lowest", "highest")),
    *(("earliest", "latest"), ("source", "target"), ("key", "value"), ("begun", "ended"), ("position", "offset")),
    *(("current", "next"), ("previous", "next"), ("start", "stop"), ("sent", "received"), ("older", "newer")),
]

#: The maximum number of similar names to try in place of a name; the most similar ones come first.
NAMES_MAX = 2

#: Builtins that return an int.
_COUNTING = {"len", "int", "sum", "ord", "hash"}

_MODULE = "<module>"
_ABRUPT = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES = (*_FUNCTIONS, ast.ClassDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def find_slips(path: str, source: bytes) -> list[Fault]:
    """Return all slips that can be made in a Python source, in order of position; none for a Cython source.

    Args:
        path: the path relative to the root.
        source: the content of the source, in UTF-8.
    """
    if not path.endswith(".py"):
        return []
    finder = _Finder(path, source)
    finder.definitions(ast.parse(source).body)
    return sorted_faults(finder.faults)


class _Scope(NamedTuple):
    """A function whose names are examined.

    Attributes:
        name: the name of the function.
        types: the types of its names, where the source reveals them.
        futures: its names for futures that it creates.
        attributes: for each object, such as `self`, the attributes that its class and module read, except for called
            methods.
        fields: the types of the attributes of `self`.
    """

    name: str
    types: Mapping[str, str]
    futures: Set[str]
    attributes: Mapping[str, set[str]]
    fields: Mapping[str, str]


class _Finder:
    """Collect the slips of a Python source."""

    def __init__(self, path: str, source: bytes) -> None:
        self.faults: list[Fault] = []
        self._path = path
        self._text = SourceText(source)
        self._places: list[str] = []
        tree = ast.parse(source)
        self._attributes: Mapping[str, set[str]] = _attributes(tree)
        self._loggers = _loggers(tree)

    # --- nodes that are entered

    def definitions(self, statements: Sequence[ast.stmt], fields: Mapping[str, str] | None = None) -> None:
        """Enter the functions and classes of a module or a class.

        Args:
            statements: the statements of the module or the class.
            fields: the attributes of `self` whose types are known.
        """
        for statement in statements:
            if isinstance(statement, ast.ClassDef):
                self._places.append(statement.name)
                around, fields_inside = self._attributes, _fields(statement)
                own = _attributes(statement)["self"] | fields_inside.keys()
                self._attributes = {**around, "self": own}
                self.definitions(statement.body, fields_inside)
                self._attributes = around
                self._places.pop()
            elif isinstance(statement, _FUNCTIONS) and statement.name != "__repr__":
                self._function(statement, fields or {})
            elif isinstance(statement, ast.If | ast.Try):
                self.definitions([*statement.body, *statement.orelse], fields)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, fields: Mapping[str, str]) -> None:
        self._places.append(node.name)
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        types = {each.arg: ast.unparse(each.annotation) for each in arguments if each.annotation} | _types(node)
        scope = _Scope(node.name, types, _futures(node), self._attributes, fields)
        self._block(node.body, scope, frozenset(each.arg for each in arguments))
        self._places.pop()

    def _block(self, statements: Sequence[ast.stmt], scope: _Scope, bound: frozenset[str]) -> None:
        """Process the statements of a block before which some names are already bound."""
        for first, second in pairwise(statements):
            self._order(first, second, scope)
        for number, statement in enumerate(statements):
            self._state(statement, statements[number + 1 :], scope, bound)
            inner = bound
            if isinstance(statement, _FUNCTIONS):
                self._function(statement, scope.fields)
            elif not isinstance(statement, ast.ClassDef | ast.Assert | ast.Import | ast.ImportFrom):
                self._names(statement, scope, bound)
                if isinstance(statement, ast.For | ast.AsyncFor):
                    self._loop(statement, scope, bound)
                    inner = bound | _stored(statement.target)
                elif isinstance(statement, ast.With | ast.AsyncWith):
                    inner = bound.union(*(_stored(item.optional_vars) for item in statement.items))
                for block in _blocks(statement):
                    self._block(block, scope, inner)
            bound |= _binds(statement)

    # --- state

    def _state(self, statement: ast.stmt, rest: Sequence[ast.stmt], scope: _Scope, bound: frozenset[str]) -> None:
        """Omit statements that record or reset a value."""
        if isinstance(statement, ast.Expr):
            call = statement.value
            notes = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in NOTES
            if notes:
                self._leave_out(statement)
        elif isinstance(statement, ast.Delete):
            self._leave_out(statement)
        elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign) and statement.value is not None:
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            is_new = any(_is_made(target, scope) or not _stored(target) <= bound for target in targets)
            if not is_new and not _is_overwritten(list(map(ast.unparse, targets)), rest):
                self._leave_out(statement)

    def _leave_out(self, statement: ast.stmt) -> None:
        self._add("state", "left out", statement, statement, "pass")

    # --- names

    def _names(self, statement: ast.stmt, scope: _Scope, bound: frozenset[str]) -> None:
        """Replace names in a statement, except those in its blocks, with similar ones."""
        for child in ast.iter_child_nodes(statement):
            is_target = isinstance(statement, ast.For | ast.AsyncFor) and child is statement.target
            if isinstance(child, ast.expr | ast.withitem) and not is_target:
                self._expression(child, scope, bound)

    def _expression(self, node: ast.AST, scope: _Scope, bound: frozenset[str]) -> None:
        if isinstance(node, ast.Lambda | ast.JoinedStr):
            return
        if isinstance(node, _COMPREHENSIONS):
            bound = bound.union(*(_stored(each.target) for each in node.generators))
        if isinstance(node, ast.Name) and node.id in bound:
            for other in _neighbours(node.id, bound, scope.types):
                self._add("names", "exchanged", node, node, other)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and not _is_made(node, scope):
            fields = scope.fields if node.value.id == "self" else {}
            known = scope.attributes.get(node.value.id, set())
            for other in _neighbours(node.attr, known, fields) if node.attr in known else ():
                self._add("names", "exchanged", node, node, f"{node.value.id}.{other}")
        elif isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Store):
            for first, second in pairwise(node.elts):
                if isinstance(first, ast.Name) and isinstance(second, ast.Name) and _distance(first.id, second.id):
                    self._exchange("names", first, second)
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(node, ast.Call) and child is node.func:
                if isinstance(child, ast.Attribute):
                    self._expression(child.value, scope, bound)
            else:
                self._expression(child, scope, bound)

    def _loop(self, loop: ast.For | ast.AsyncFor, scope: _Scope, bound: frozenset[str]) -> None:
        """Rename a loop variable to the name of a number that is defined outside the loop and read in it."""
        if not isinstance(loop.target, ast.Name) or loop.target.id == "_":
            return
        name = loop.target.id
        for other in sorted(_read(loop) & bound - {name}):
            if scope.types.get(other) == "int" and scope.types.get(name, "int") == "int":
                renamed, at = "", self._text.start(loop.target)
                for each in sorted(_named(loop, name), key=self._text.start):
                    renamed += self._text.source[at : self._text.start(each)].decode() + other
                    at = self._text.end(each)
                renamed += self._text.source[at : self._text.end(loop)].decode()
                self._add("names", "loop variable", loop.target, loop, renamed)

    # --- order

    def _order(self, first: ast.stmt, second: ast.stmt, scope: _Scope) -> None:
        """Swap two effects."""
        if not all(_is_effect(each) and _root(each) not in self._loggers for each in (first, second)):
            return
        if _bound_by(first) & (_read(second) | _bound_by(second)) or _bound_by(second) & _read(first):
            return
        if scope.name == "__init__" or _are_independent(first, second):
            return
        if any(_is_later(one, other, scope.futures) for one, other in _both_ways(first, second)):
            return
        self._exchange("order", first, second)

    # --- how

    def _exchange(self, kind: Kind, first: ast.expr | ast.stmt, second: ast.expr | ast.stmt) -> None:
        one, other = self._text.of(first), self._text.of(second)
        if one != other:
            new = f"{other}{self._text.between(first, second)}{one}"
            self._add(kind, "places exchanged", first, second, new)

    def _add(self, kind: Kind, edit: str, first: ast.expr | ast.stmt, last: ast.expr | ast.stmt, new: str) -> None:
        start, end = self._text.start(first), self._text.end(last)
        place = ".".join(self._places) or _MODULE
        self.faults.append(Fault(self._path, place, first.lineno, kind, edit, start, end, new))


# --- similar names


def _neighbours(name: str, names: Set[str], types: Mapping[str, str]) -> list[str]:
    """Return the names that are most easily mistaken for a given one; the most similar come first."""
    near = {}
    for other in names:
        if other != name and other not in ("self", "cls", "_"):
            same_type = name in types and types[name] == types.get(other)
            distance = _distance(name, other) or 3 * same_type
            known = types.get(name), types.get(other)
            if distance and (same_type or None in known):
                near[other] = distance
    return sorted(near, key=lambda other: (near[other], other))[:NAMES_MAX]


def _distance(name: str, other: str) -> int:
    """Return the distance between two names: 1 for the most similar, 0 if they are not similar."""
    words, others = name.strip("_").split("_"), other.strip("_").split("_")
    if len(words) == len(others):
        differ = [pair for pair in zip(words, others, strict=True) if pair[0] != pair[1]]
        if len(differ) == 1 and (differ[0] in NEIGHBOURS or differ[0][::-1] in NEIGHBOURS):
            return 1
    return 2 if words[-1] == others[-1] else 0


# --- facts about the names of a function or a class


def _types(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, str]:
    """Return those types of a function's locals that are easy to determine: annotated types, counts and indexes."""
    types: dict[str, str] = {}
    for node in _own(function):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            types[node.target.id] = ast.unparse(node.annotation)
        elif isinstance(node, ast.Assign):
            types |= {
                target.id: "int" for target in node.targets if isinstance(target, ast.Name) and _is_int(node.value)
            }
        elif isinstance(node, ast.For | ast.comprehension) and isinstance(node.iter, ast.Call):
            callee, target = ast.unparse(node.iter.func), node.target
            if callee == "enumerate" and isinstance(target, ast.Tuple):
                target = target.elts[0]
            if callee in ("range", "enumerate") and isinstance(target, ast.Name):
                types[target.id] = "int"
    return types


def _futures(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Return the locals of a function that are always asyncio futures created by the function."""
    made: dict[str, bool] = {each.arg: False for each in ast.walk(function.args) if isinstance(each, ast.arg)}
    values = {id(node.targets[0]): node.value for node in _own(function) if isinstance(node, ast.Assign)}
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            value = values.get(id(node))
            called = value.func if isinstance(value, ast.Call) else None
            is_future = isinstance(called, ast.Name | ast.Attribute) and ast.unparse(called).split(".")[-1] in FUTURES
            made[node.id] = made.get(node.id, True) and is_future
    return {name for name, is_made in made.items() if is_made}


def _is_int(value: ast.expr) -> bool:
    if isinstance(value, ast.Constant):
        return type(value.value) is int
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in _COUNTING


def _attributes(tree: ast.AST) -> defaultdict[str, set[str]]:
    """Return the attributes that are used with each name, except those that are called."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and id(node) not in called:
            found[node.value.id].add(node.attr)
    return found


def _fields(of_class: ast.ClassDef) -> dict[str, str]:
    """Return the types of the attributes that a class declares in its body or in `__init__`."""
    fields = {}
    for node in ast.walk(of_class):
        if isinstance(node, ast.AnnAssign) and (node in of_class.body or _is_field(node.target)):
            fields[node.target.attr if isinstance(node.target, ast.Attribute) else ast.unparse(node.target)] = (
                ast.unparse(node.annotation)
            )
    return fields


def _loggers(tree: ast.Module) -> set[str]:
    """Return the names through which a module writes messages: `print`, `warnings` and its loggers."""
    assigned = [statement for statement in tree.body if isinstance(statement, ast.Assign)]
    loggers = [each for each in assigned if ast.unparse(each.value).startswith("logging.getLogger(")]
    return {"print", "warnings"}.union(*(_stored(target) for each in loggers for target in each.targets))


# --- effects of a statement


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Yield the blocks of a statement."""
    for name in ("body", "orelse", "finalbody"):
        if block := getattr(statement, name, None):
            yield block
    for handler in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield handler.body


def _binds(statement: ast.stmt) -> frozenset[str]:
    """Return the names that are certainly bound after a statement."""
    bound = _bound_by(statement)
    if isinstance(statement, ast.With | ast.AsyncWith):
        bound = bound.union(*map(_binds, statement.body))
    elif isinstance(statement, ast.If):
        ways = [
            block for block in (statement.body, statement.orelse) if not block or not isinstance(block[-1], _ABRUPT)
        ]
        names = [frozenset[str]().union(*map(_binds, block)) for block in ways]
        bound |= frozenset.intersection(*names) if names else frozenset()
    return bound


def _bound_by(statement: ast.stmt) -> frozenset[str]:
    """Return the names that a statement binds, except in its blocks."""
    expressions = [child for child in ast.iter_child_nodes(statement) if isinstance(child, ast.expr | ast.withitem)]
    if isinstance(statement, ast.For | ast.AsyncFor):
        expressions.remove(statement.target)
    return frozenset().union(*map(_stored, expressions))


def _stored(node: ast.AST | None) -> frozenset[str]:
    """Return the names that an expression or a target binds."""
    if node is None or isinstance(node, (ast.Lambda, *_COMPREHENSIONS)):
        return frozenset()
    if isinstance(node, ast.Name):
        return frozenset({node.id} if isinstance(node.ctx, ast.Store) else ())
    return frozenset[str]().union(*map(_stored, ast.iter_child_nodes(node)))


def _read(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}


def _named(node: ast.AST, name: str) -> list[ast.Name]:
    return [each for each in ast.walk(node) if isinstance(each, ast.Name) and each.id == name]


def _own(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function, except those of nested functions and classes."""
    for child in ast.iter_child_nodes(function):
        yield child
        if not isinstance(child, _SCOPES):
            yield from _own(child)


def _is_made(target: ast.expr, scope: _Scope) -> bool:
    """Return whether a target is an attribute created by a constructor, which would be missing without it."""
    is_stored = isinstance(target, ast.Attribute) and isinstance(target.ctx, ast.Store)
    return is_stored and scope.name == "__init__" and _is_field(target)


def _is_field(target: ast.expr) -> bool:
    return isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self"


def _is_overwritten(targets: Sequence[str], rest: Sequence[ast.stmt]) -> bool:
    """Return whether all targets are assigned again before anything can read them."""
    left = set(targets)
    for statement in rest:
        if not isinstance(statement, ast.Assign) or not _is_quiet(statement) or _texts(statement.value) & left:
            return False
        left -= _written(statement)
        if not left:
            return True
    return False


def _is_effect(statement: ast.stmt) -> bool:
    """Return whether a simple statement has an effect outside the function."""
    if isinstance(statement, ast.Expr):
        is_pause = isinstance(statement.value, ast.Yield) and statement.value.value is None
        is_pause = is_pause or ast.unparse(statement) == "yield from ()"
        return isinstance(statement.value, ast.Call | ast.Await | ast.Yield | ast.YieldFrom) and not is_pause
    if isinstance(statement, ast.Assign):
        return all(isinstance(target, ast.Attribute | ast.Subscript) for target in statement.targets)
    if isinstance(statement, ast.AugAssign | ast.AnnAssign):
        return statement.value is not None and isinstance(statement.target, ast.Attribute | ast.Subscript)
    return isinstance(statement, ast.Delete)


def _is_quiet(statement: ast.stmt) -> bool:
    """Return whether a statement runs no code that could fail or observe earlier statements."""
    inside = [
        node for node in ast.walk(statement) if isinstance(node, ast.Call | ast.Await | ast.Yield | ast.YieldFrom)
    ]
    if isinstance(statement, ast.Expr) and isinstance(call := statement.value, ast.Call):
        return inside == [call] and isinstance(call.func, ast.Attribute) and call.func.attr in NOTES
    return not inside


def _are_independent(first: ast.stmt, second: ast.stmt) -> bool:
    """Return whether two statements appear to have the same effect in either order.

    They do not if one reads or changes what the other changes, if one waits, or if one may fail, which would skip the
    other.
    """
    if any(isinstance(node, ast.Await | ast.Yield | ast.YieldFrom) for node in (*ast.walk(first), *ast.walk(second))):
        return False
    if len({key for each in (first, second) if (key := _constant_key(each))}) == 2:
        return not any(_overlap(_changed(one), _texts(_value(other))) for one, other in _both_ways(first, second))
    return not any(
        _overlap(_changed(one), _texts(other)) or (not isinstance(one, ast.Expr) and _fails(other))
        for one, other in _both_ways(first, second)
    )


def _is_later(asking: ast.stmt, note: ast.stmt, futures: Set[str]) -> bool:
    """Return whether one statement adds a callback to a future, and the other records a value that it does not use."""
    call = asking.value if isinstance(asking, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or not _is_quiet(note):
        return False
    future = call.func.value
    if call.func.attr != "add_done_callback" or not isinstance(future, ast.Name) or future.id not in futures:
        return False
    callback = call.args[0] if len(call.args) == 1 and not call.keywords else None
    if _root(note) == future.id or not isinstance(callback, ast.Name | ast.Attribute | ast.Lambda):
        return False
    # A changed container is still the same object when the callback runs; an assigned name may refer to another.
    targets = note.targets if isinstance(note, ast.Assign) else []
    seen = set() if isinstance(callback, ast.Lambda) else _texts(callback)
    return isinstance(note, ast.Assign | ast.Expr) and not _overlap(set(map(ast.unparse, targets)), seen)


def _both_ways(first: ast.stmt, second: ast.stmt) -> Sequence[tuple[ast.stmt, ast.stmt]]:
    return (first, second), (second, first)


def _constant_key(statement: ast.stmt) -> str:
    """Return the target of `a["b"] = …`, otherwise an empty string."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if not isinstance(target, ast.Subscript):
        return ""
    callees = {id(node.func) for node in ast.walk(target.slice) if isinstance(node, ast.Call)}
    names = [node for node in ast.walk(target.slice) if isinstance(node, ast.Name) and id(node) not in callees]
    return "" if names else ast.unparse(target)


def _value(statement: ast.stmt) -> ast.AST:
    return statement.value if isinstance(statement, ast.Assign) else statement


def _fails(statement: ast.stmt) -> bool:
    """Return whether a statement calls a method that can fail through no fault of the program."""
    calls = [node.func for node in ast.walk(statement) if isinstance(node, ast.Call)]
    return any(isinstance(called, ast.Attribute) and called.attr in FAILING for called in calls)


def _overlap(changed: set[str], texts: set[str]) -> bool:
    """Return whether a statement names a changed object or a part of one."""
    return any(text == each or text.startswith(f"{each}.") for each in changed for text in texts)


def _changed(statement: ast.stmt) -> set[str]:
    """Return what a statement may change: targets, objects whose methods are called, and `self` if passed on."""
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
    objects = [call.func.value for call in calls if isinstance(call.func, ast.Attribute) and not _is_pure(call.func)]
    objects += [argument for call in calls for argument in call.args if ast.unparse(argument) == "self"]
    return _written(statement) | {ast.unparse(each) for each in objects if isinstance(each, ast.Name | ast.Attribute)}


def _is_pure(called: ast.Attribute) -> bool:
    """Return whether a call leaves its object unchanged, for example `A.B()`, which creates an instance."""
    is_class = isinstance(called.value, ast.Name) and called.value.id[:1].isupper() and called.attr[:1].isupper()
    return called.attr in PURE or is_class


def _written(statement: ast.stmt) -> set[str]:
    """Return the targets that a quiet statement changes, as text."""
    if isinstance(statement, ast.Expr):
        call = statement.value
        return (
            {ast.unparse(call.func.value)}
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
            else set()
        )
    if isinstance(statement, ast.Assign | ast.Delete):
        targets = statement.targets
    else:
        targets = [statement.target] if isinstance(statement, ast.AugAssign | ast.AnnAssign) else []
    return {ast.unparse(target.value if isinstance(target, ast.Subscript) else target) for target in targets}


def _texts(node: ast.AST) -> set[str]:
    """Return all names in a node: `self.x.y`, `self.x` and `self`."""
    return {ast.unparse(each) for each in ast.walk(node) if isinstance(each, ast.Name | ast.Attribute)}


def _root(statement: ast.stmt) -> str:
    """Return the name that a statement starts with, such as `a` in `a.b(c)`."""
    node: ast.AST = statement
    while (child := next(ast.iter_child_nodes(node), None)) is not None and not isinstance(node, ast.Name):
        node = child
    return node.id if isinstance(node, ast.Name) else ""
