"""Find the places in a source where an operator, a constant or a condition could be wrong, and plant such faults.

Python sources are parsed into syntax trees; Cython sources are just tokenized, since only Cython knows their grammar.
Faults that no test could or should notice are excluded: those in annotations, docstrings, `__repr__`, decorators,
assertions for the type checker and those of `zip(…, strict=True)`, the text of errors, and the number of a limit
(`…_MAX`, `MAX_…`), which is a choice and not a fact. `tools/slips.py` finds other kinds of faults; `tools/mutants.py`
runs the tests against the faults.
"""

from __future__ import annotations

import ast
import io
import re
import token
import tokenize
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

__all__ = ["Fault", "Kind", "SourceText", "diff", "find_faults", "plant", "sorted_faults"]

Kind = Literal["operators", "state", "names", "order"]

#: The replacement for each comparison: its neighbour if it has one, otherwise the opposite.
COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}

OPERATORS: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.BitXor: ("^", "&"),
}

FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}

#: Statements that can be removed without breaking the program.
DROPPABLE = (ast.AugAssign, ast.Raise, ast.Continue, ast.Break, ast.Delete)

#: Calls that just inform the type checker, and calls in which swapped arguments fail immediately.
TYPE_CALLS = {"cast", "TypeVar", "NewType", "NamedTuple"}
UNSWAPPED_CALLS = {"isinstance", "issubclass", "getattr", "hasattr", "setattr"}

#: Kinds of arguments that often have the same type as their neighbours; texts and numbers rarely do.
SWAPPED = (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.BinOp)

#: Comparisons whose own edit already negates the condition.
NEGATED = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)

_LIMIT = re.compile(r"(?:^|_)(?:MAX|LIMIT)(?:_|$)")
_MODULE = "<module>"

#: Cython tokens and their replacements.
CYTHON_OPERATORS = dict(COMPARISONS[kind] for kind in (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq))
CYTHON_OPERATORS |= dict(OPERATORS.values()) | {"and": "or", "or": "and", "+=": "-=", "-=": "+="}
_CYTHON_DEFINITION = re.compile(r" *(?:cdef |cpdef |def )[^=\n]*?(?P<name>\w+)\(|\S")
_CYTHON_DROPPED = re.compile(r"(?:raise|return|continue|break)\b|[\w.\[\]]+(?:\[.*\]|\.\w+)* [-+|&]?= ")


class Fault(NamedTuple):
    """One small edit of a source.

    Attributes:
        path: the path of the source, relative to the root.
        place: the function or class, such as `ClientConnection.negotiate`; `<module>` outside functions and classes.
        line: the line number, from 1.
        kind: the kind of fault, as in `python -m tools.mutants --kind`.
        edit: a description of the change in a word or two.
        start, end: the byte range of the source to replace.
        new: the replacement.
    """

    path: str
    place: str
    line: int
    kind: Kind
    edit: str
    start: int
    end: int
    new: str


def find_faults(path: str, source: bytes) -> list[Fault]:
    """Return all faults of the kind `operators` that can be planted in a source, in order of position.

    Args:
        path: the path relative to the root; the suffix determines whether the source is Python or Cython.
        source: the content of the source, in UTF-8.
    """
    if path.endswith(".py"):
        finder = _Finder(path, source)
        finder.visit(ast.parse(source))
        found = finder.faults
    else:
        found = list(_cython_faults(path, source))
    return sorted_faults(found)


def sorted_faults(faults: Iterable[Fault]) -> list[Fault]:
    """Return faults in order of position; of equal ones, only the last is kept."""
    return sorted({fault[-3:]: fault for fault in faults}.values(), key=lambda fault: fault[-3:])


def plant(source: bytes, fault: Fault) -> bytes:
    """Return a source with a fault planted in it."""
    return source[: fault.start] + fault.new.encode() + source[fault.end :]


def diff(source: bytes, fault: Fault) -> list[str]:
    """Return the lines that a fault removes (`-…`) and adds (`+…`)."""
    first = source.rfind(b"\n", 0, fault.start) + 1
    last = source.find(b"\n", fault.end) % (len(source) + 1)
    old = source[first:last].decode()
    new = (source[first : fault.start] + fault.new.encode() + source[fault.end : last]).decode()
    return [*(f"-{line}" for line in old.splitlines()), *(f"+{line}" for line in new.splitlines())]


class SourceText:
    """The bytes of a Python source, and the positions in them of the nodes of its syntax tree."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self._line_starts = [0]
        for line in source.splitlines(keepends=True):
            self._line_starts.append(self._line_starts[-1] + len(line))

    def of(self, node: ast.expr | ast.stmt) -> str:
        """Return the text of a node."""
        return self.source[self.start(node) : self.end(node)].decode()

    def between(self, first: ast.expr | ast.stmt, second: ast.expr | ast.stmt) -> str:
        """Return the text between two nodes."""
        return self.source[self.end(first) : self.start(second)].decode()

    def start(self, node: ast.expr | ast.stmt) -> int:
        """Return the first byte of a node."""
        return self._line_starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt) -> int:
        """Return the byte after a node."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._line_starts[node.end_lineno - 1] + node.end_col_offset


class _Finder(ast.NodeVisitor):
    """Collect the faults of a Python source."""

    def __init__(self, path: str, source: bytes) -> None:
        self.faults: list[Fault] = []
        self._path = path
        self._text = SourceText(source)
        self._places: list[str] = []
        self._functions = 0

    # --- nodes that are entered or skipped

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name == "__repr__":
            return
        self._places.append(node.name)
        self._functions += 1
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        self._body(node.body)
        self._functions -= 1
        self._places.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._places.append(node.name)
        self._body(node.body)
        self._places.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._assignment(node, [node.target])

    def visit_Assign(self, node: ast.Assign) -> None:
        self._assignment(node, node.targets)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Skip the text of messages."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """Skip assertions for the type checker."""

    def visit_arguments(self, node: ast.arguments) -> None:
        """Skip the annotations; the tree uses no defaults in lambdas."""

    # --- edits

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) == "TYPE_CHECKING":
            return
        self._negate(node.test)
        if isinstance(node.body[-1], ast.Return) and not node.orelse and self._functions:
            self._add("early return", node.body[-1], "pass")
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        if not isinstance(node.test, ast.Constant):
            self._negate(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._negate(test)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            old, new = COMPARISONS[type(operator)]
            self._between("comparison", left, right, old, new)
            left = right
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        texts = [side for side in (node.left, node.right) if isinstance(side, ast.JoinedStr | ast.Constant)]
        formats = any(isinstance(side, ast.JoinedStr) or isinstance(side.value, str | bytes) for side in texts)
        type_alias = isinstance(node.op, ast.BitOr) and not self._functions
        if type(node.op) in OPERATORS and not formats and not type_alias:
            self._between("arithmetic", node.left, node.right, *OPERATORS[type(node.op)])
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if type(node.op) in OPERATORS:
            old, new = OPERATORS[type(node.op)]
            self._between("arithmetic", node.target, node.value, f"{old}=", f"{new}=")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._between("and, or", left, right, old, new)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._add("condition", node, self._text.of(node.operand))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._add("constant", node, str(not node.value))
        elif isinstance(node.value, int):
            self._add("constant", node, str(node.value + 1))
            if node.value > 1:
                self._add("constant", node, str(node.value - 1))

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in TYPE_CALLS:
            return
        if isinstance(node.func, ast.Name) and name in FUNCTIONS:
            self._add("min, max", node.func, FUNCTIONS[name])
        if name not in UNSWAPPED_CALLS | FUNCTIONS.keys():
            self._swap(node.args[:2])
        for child in (node.func, *node.args, *(each.value for each in node.keywords if each.arg != "strict")):
            self.visit(child)

    def visit_Slice(self, node: ast.Slice) -> None:
        for bound in (node.lower, node.upper):
            if bound is not None and not isinstance(bound, ast.Constant):
                self._add("slice", bound, f"({self._text.of(bound)}) + 1")
        self.generic_visit(node)

    # --- how

    def _body(self, statements: list[ast.stmt]) -> None:
        for statement in statements[1:] if _is_docstring(statements[0]) else statements:
            self.visit(statement)

    def _assignment(self, node: ast.Assign | ast.AnnAssign, targets: list[ast.expr]) -> None:
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        limit = any(name.isupper() and _LIMIT.search(name) for name in names)
        if node.value is None or limit or not {"__all__", "__slots__"}.isdisjoint(names):
            return
        if self._functions and all(isinstance(target, ast.Attribute | ast.Subscript) for target in targets):
            self._add("dropped statement", node, "pass")
        self.visit(node.value)
        for target in targets:
            self.visit(target)

    def visit_Expr(self, node: ast.Expr) -> None:
        if self._functions and isinstance(node.value, ast.Call | ast.Await | ast.Yield | ast.YieldFrom):
            self._add("dropped statement", node, "pass")
        self.generic_visit(node)

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, DROPPABLE) and self._functions:
            self._add("dropped statement", node, "pass")
        super().visit(node)

    def _negate(self, test: ast.expr) -> None:
        compared = isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], NEGATED)
        if not compared and not (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
            self._add("condition", test, f"(not ({self._text.of(test)}))")

    def _swap(self, arguments: list[ast.expr]) -> None:
        if len(arguments) < 2 or not all(isinstance(argument, SWAPPED) for argument in arguments):
            return
        first, second = map(self._text.of, arguments)
        if first != second:
            start, end = self._text.start(arguments[0]), self._text.end(arguments[1])
            between = self._text.between(arguments[0], arguments[1])
            self._replace("arguments", arguments[0].lineno, start, end, f"{second}{between}{first}")

    def _between(self, edit: str, left: ast.expr, right: ast.expr, old: str, new: str) -> None:
        """Replace the operator between two operands, skipping brackets and comments."""
        start = self._text.end(left)
        pattern = r"\s+".join(map(re.escape, old.split()))
        text = self._text.between(left, right).encode()
        between = re.sub(rb"#[^\n]*", lambda comment: b" " * len(comment[0]), text)
        if found := re.search(rf"(?<!\w){pattern}(?!\w)".encode(), between):
            self._replace(edit, left.lineno, start + found.start(), start + found.end(), new)

    def _add(self, edit: str, node: ast.expr | ast.stmt, new: str) -> None:
        self._replace(edit, node.lineno, self._text.start(node), self._text.end(node), new)

    def _replace(self, edit: str, line: int, start: int, end: int, new: str) -> None:
        place = ".".join(self._places) or _MODULE
        self.faults.append(Fault(self._path, place, line, "operators", edit, start, end, new))


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _cython_faults(path: str, source: bytes) -> Iterator[Fault]:
    """Yield the faults of a Cython source, line by line."""
    place, start, quoted = _MODULE, 0, False
    for number, raw in enumerate(source.splitlines(keepends=True), 1):
        line = raw.decode()
        if definition := _CYTHON_DEFINITION.match(line):
            place = definition["name"] or _MODULE
        in_docstring, quoted = quoted, quoted ^ (line.count('"""') % 2 == 1)
        if not (definition or in_docstring or quoted) and line.startswith(" ") and line.strip()[:1] not in "#@\"'":
            for edit, first, last, new in _cython_edits(line):
                begin, end = start + len(line[:first].encode()), start + len(line[:last].encode())
                yield Fault(path, place, number, "operators", edit, begin, end, new)
        start += len(raw)


def _cython_edits(line: str) -> Iterator[tuple[str, int, int, str]]:
    """Yield the edits for a line: their names, the characters to replace, and the replacements.

    An operator has blanks on both sides; without them, `<int>x` is a cast, and `&x` an address. Any negative return
    value means failure.
    """
    text, indent = line.strip(), len(line) - len(line.lstrip())
    whole = text.count("(") == text.count(")") and text.count("[") == text.count("]") and "#" not in text
    if whole and _CYTHON_DROPPED.match(text) and not text.endswith((",", "\\")):
        yield "dropped statement", indent, indent + len(text), "pass"
    if whole and (test := re.match(r"(?:elif|if|while) (.*):$", text)):
        yield "condition", indent + test.start(1), indent + test.end(1), f"not ({test[1]})"
    for kind, string, first, last in _tokens(text):
        if kind == token.NUMBER and string.isdigit() and not text.startswith("return -"):
            yield "constant", indent + first, indent + last, str(int(string) + 1)
        elif string in CYTHON_OPERATORS and text[first - 1 : last + 1] == f" {string} ":
            yield "operator", indent + first, indent + last, CYTHON_OPERATORS[string]


def _tokens(text: str) -> Iterator[tuple[int, str, int, int]]:
    try:
        for found in tokenize.generate_tokens(io.StringIO(text + "\n").readline):
            yield found.type, found.string, found.start[1], found.end[1]
    except tokenize.TokenError:  # the statement continues on the next line
        return
