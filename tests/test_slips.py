"""Every kind of slip is found, each slip leaves a source that parses, and edits without effect are excluded.

Method: try a function body for each slip and for each reason not to make one, then sources of the project.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools.faults import diff, plant
from tools.slips import find_slips

ROOT = Path(__file__).parent.parent

#: a kind of slip, a method's body, and the changed line after each slip of that kind
SLIPS = [
    ("state", "self.x = None", {"pass"}),
    ("state", "self.x[a] = None", {"pass"}),
    ("state", "self.x += 1", {"pass"}),
    ("state", "self.x: int = 1", {"pass"}),
    ("state", "del self.x[a]", {"pass"}),
    ("state", "self.x.clear()", {"pass"}),
    ("state", "a = 1", {"pass"}),
    ("state", "y = 1", set()),  # without it there is no y
    ("state", "y = 1; y = self.f(y)", {"y = 1; pass"}),
    ("state", "if a: y = 1\n        else: y = 2\n        y = self.f(y)", {"pass"}),
    ("state", "self.x = 1; self.x = 2", {"self.x = 1; pass"}),  # no other code can have read the first
    ("state", "self.x = 1; self.f(); self.x = 2", {"pass; self.f(); self.x = 2", "self.x = 1; self.f(); pass"}),
    ("names", "return start_ms", {"return end_ms"}),
    ("names", "return low", {"return n"}),  # of the same type
    ("names", "return self.base_offset", {"return self.last_offset"}),
    ("names", "first, last = f()", {"last, first = f()"}),
    ("names", "return f(low_offset=start_ms)", {"return f(low_offset=end_ms)"}),
    ("names", "return start_ms.x(end_ms)", {"return end_ms.x(end_ms)", "return start_ms.x(start_ms)"}),
    ("names", "return [first for first, last in a]", {"return [last for first, last in a]"}
        | {"return [first for last, first in a]"}),
    ("names", "for x in a: a[x] = n", {"for n in a: a[n] = n", "for x in a: a[x] = low"}),
    ("names", "z_ms = a", set()),  # not bound yet
    ("names", "return topic, topics", set()),
    ("names", "return self.first(), self.last()", set()),
    ("names", "assert start_ms", set()),
    ("names", "raise f(f'{start_ms}')", set()),
    ("order", "self.x = 1; self.f()", {"self.f(); self.x = 1"}),
    ("order", "self.f(); self.x.add(1)", {"self.x.add(1); self.f()"}),
    ("order", "self.x = 1; self.y = self.x", {"self.y = self.x; self.x = 1"}),
    ("order", "self.x = 1; self.y = 2", set()),
    ("order", "self.x.add(1); self.y.clear()", set()),
    ("order", "self.x = f(a); self.y = 2", set()),  # the call knows nothing of self
    ("order", "self.x = f(self); self.y = 2", {"self.y = 2; self.x = f(self)"}),
    ("order", "self.x = await a; self.y = 2", {"self.y = 2; self.x = await a"}),
    ("order", "self.x = 1; self.file.write(a)", {"self.file.write(a); self.x = 1"}),  # which may fail
    ("order", "self.x = 1; self.file.name(a)", set()),
    ("order", "self.x = 1; yield from ()", set()),
    ("order", "self.x = 1; yield from a", {"yield from a; self.x = 1"}),
    ("order", "self.x = A.B(n); self.y = A.B(low)", set()),  # creates an object, and changes no class
    ("order", "self.x = A.b(n); self.y = A.b(low)", {"self.y = A.b(low); self.x = A.b(n)"}),
    ("order", "a.add(topic.x); a[topic.with_suffix(n)] = 1", {"a[topic.with_suffix(n)] = 1; a.add(topic.x)"}),
    ("order", "a.add(topic.x); topics[topic.with_suffix(n)] = 1", set()),  # nothing changes a path
    ("order", "self.f(); yield", set()),  # others get their turn a little earlier
    ("order", "a['b'] = f(n); a[g('c')] = 2", set()),
    ("order", "a['b'] = f(n); a['c'] = g(a)", {"a['c'] = g(a); a['b'] = f(n)"}),
    ("order", "b = self.f(); self.g(b)", set()),
    ("order", "logger.info(1); self.f()", set()),
    ("order", "self.f(); self.f()", set()),
]  # fmt: skip

#: the call that registers a callback on a future, the assignment before it, and whether that may also come later
CALLED_BACK = [
    ("t = g.create_task(a); self.x.add(t); t.add_done_callback(self.x.discard)", True),
    ("t = g.create_task(a); self.x[t] = n; t.add_done_callback(self.f)", True),
    ("t = g.create_task(a); self.x.add(t); t.add_done_callback(lambda t: self.f(t))", True),
    ("t = new_task(a, n); self.x.add(t); t.add_done_callback(self.f)", True),
    ("t = g.promise(a); self.x.add(t); t.add_done_callback(self.x.discard)", False),  # may call it immediately
    ("t = g.create_task(a) if a else n; self.x.add(t); t.add_done_callback(self.x.discard)", False),
    ("t = g.create_task(a); t = n; self.x.add(t); t.add_done_callback(self.x.discard)", False),
    ("self.x.add(a); a.add_done_callback(self.x.discard)", False),
    ("t = g.create_task(a); self.x = a; t.add_done_callback(self.x.discard)", False),  # of another container
    ("t = g.create_task(a); self.f(t); t.add_done_callback(self.x.discard)", False),
    ("t = g.create_task(a); self.x.add(t); t.add_done_callback(self.f(a))", False),
    ("t = g.create_task(a); self.x.add(t); t.add_done_callback(self.f, context=a)", False),
    ("t = g.create_task(a); self.x.add(t); t.add_done_callback()", False),
    ("t = g.create_task(a); self.x.add(t); t.cancel()", False),
    ("t = g.create_task(a); t.clear(); t.add_done_callback(self.f)", False),
]

MODULE = """
logger = logging.getLogger('a')

class A:
    def __init__(self, topic, topics):
        self.base_offset = topic(); self.last_offset = topics()

    def g(self, start_ms, end_ms, a, topic, topics, n: int, low: int):
        {body}
"""


@pytest.mark.parametrize(("kind", "body", "made"), SLIPS)
def test_slips(kind: str, body: str, made: set[str]) -> None:
    source = MODULE.replace("{body}", body).encode()
    faults = [fault for fault in find_slips("x.py", source) if fault.kind == kind]
    changed = {"\n".join(line[1:].strip() for line in diff(source, fault) if line[0] == "+") for fault in faults}
    assert changed == made


@pytest.mark.parametrize(("body", "is_later"), CALLED_BACK)
def test_a_future_calls_nobody_back_at_once(body: str, is_later: bool) -> None:
    *_, note, ask = body.split("; ")
    source = MODULE.replace("{body}", body).encode()
    exchanged = f"{ask}; {note}"
    assert is_later == all(exchanged not in fault.new for fault in find_slips("x.py", source) if fault.kind == "order")


def test_what_a_constructor_makes_is_made_in_any_order() -> None:
    assert find_slips("x.py", MODULE.replace("{body}", "pass").encode()) == []


def test_a_cython_source_has_none() -> None:
    assert find_slips("x.pyx", b"cdef int f(int first, int last):\n    return first\n") == []


@pytest.mark.thorough
def test_each_slip_of_a_real_source_parses_and_is_another_program() -> None:
    path = "reference_broker/replicas/fetch_sessions.py"
    source = (ROOT / path).read_bytes()
    faults = find_slips(path, source)
    planted = {ast.unparse(ast.parse(plant(source, fault))) for fault in faults}
    assert {fault.kind for fault in faults} == {"state", "names", "order"}
    assert len(planted) == len(faults) > 50
    assert ast.unparse(ast.parse(source)) not in planted
