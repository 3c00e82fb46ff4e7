"""Any file content results in schemas or a `SchemaError`, in time proportional to its size.

Method: read files made to exhaust a parser, each in two sizes, random text, and the project's schemas with random
damage.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkawire.codegen import SCHEMAS
from kafkawire.codegen.evolution import compare
from kafkawire.codegen.generate import generated_tree
from kafkawire.codegen.located import Problem, SchemaError
from kafkawire.codegen.state import load_state
from tests.thorough import IS_SAMPLE

HEAD = "message: Sample\nkind: data\nversions: 0\nflexible: 0+\n"

#: For each attack, a function that returns text of about a given size.
BOMBS: dict[str, Callable[[int], str]] = {
    "aliases": lambda size: "a0: &a0 x\n"
    + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, size // 30)),
    "cycle": lambda size: "message: &a [*a" + ", *a" * (size // 4) + "]",
    "lists": lambda size: "message: " + "[" * size,
    "mappings": lambda size: "message: " + "{a: " * (size // 4),
    "dashes": lambda size: "- " * (size // 2),
    "questions": lambda size: "? " * (size // 2),
    "indents": lambda size: "".join(f"{' ' * n}a:\n" for n in range(int(size**0.5))),
    "digits": lambda size: HEAD + "fields:\n  - {name: a, type: int8, default: " + "9" * size + "}\n",
    "sexagesimal": lambda size: HEAD + "fields:\n  - {name: a, type: int8, default: 1" + ":59" * (size // 3) + "}\n",
    "quotes": lambda size: 'message: "' + "\\n" * (size // 2),
    "tag": lambda size: HEAD + "fields:\n  - {name: a, type: int8, tag: 1" + "0" * 8 + "}\n" + "#" * size,
    "versions": lambda size: HEAD.replace("0\n", "0-32766\n", 1) + "fields: []\n" + "#" * size,
    "fields": lambda size: HEAD + "fields:\n" + "".join(f"  - {{name: a{n}, type: int8}}\n" for n in range(size // 26)),
    "same fields": lambda size: HEAD + "fields:\n" + "  - {name: a, type: int8}\n" * (size // 26),
    "problems": lambda size: HEAD + "fields:\n" + "  - 1\n" * (size // 6),
    "keys": lambda size: "".join(f"a{n}: 1\n" for n in range(size // 9)),
    "documents": lambda size: (HEAD + "fields: []\n---\n") * (size // 60),
    "structures": lambda size: HEAD + "structs:\n" + "".join(
        f"  - name: S{n}\n    fields:\n      - {{name: a, type: S{n + 1}}}\n      - {{name: b, type: S{n + 1}}}\n"
        for n in range(size // 90)
    ) + f"  - name: S{size // 90}\n    fields: []\nfields:\n  - {{name: a, type: S0}}\n",
}  # fmt: skip

SIZE = 40_000
#: Twice the input may take twice the time, plus a margin for a busy machine.
GROWTH_MAX = 3.5
FLOOR_SECONDS = 0.2


def seconds_to_read(folder: Path, text: str) -> float:
    (folder / "bomb.yaml").write_text(text)
    started = time.process_time()
    try:
        compare(load_state(folder), load_state(folder))
        generated_tree(folder)
    except SchemaError:
        pass
    return time.process_time() - started


@pytest.mark.parametrize("name", BOMBS)
def test_time_is_proportional_to_size(tmp_path: Path, name: str) -> None:
    small, large = (min(seconds_to_read(tmp_path, BOMBS[name](size)) for _ in range(2)) for size in (SIZE, 2 * SIZE))
    assert large < GROWTH_MAX * max(small, FLOOR_SECONDS)


def read(folder: Path, content: bytes) -> None:
    """Read a file as part of a folder of schemas; any error other than `SchemaError` fails the test."""
    (folder / "sample.yaml").write_bytes(content)
    (folder / "errors.yaml").write_bytes(content)
    (folder / "enumerations.yaml").write_bytes(content)
    (folder / "configs.yaml").write_bytes(content)
    (folder / "records").mkdir(exist_ok=True)
    (folder / "records" / "sample.yaml").write_bytes(content)
    problems: tuple[Problem, ...] = ()
    try:
        load_state(folder)
    except SchemaError as error:
        problems = error.problems
    assert all(problem.reason and "\n" not in str(problem) for problem in problems)


MANY = settings(
    max_examples=100 if IS_SAMPLE else 300,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@MANY
@given(st.binary(max_size=200))
def test_bytes(tmp_path: Path, content: bytes) -> None:
    read(tmp_path, content)


@MANY
@given(st.text(st.sampled_from("abA01:-?,[]{}&*!#|>'\"%@` \n\t~=<.é😀"), max_size=60))
def test_text(tmp_path: Path, text: str) -> None:
    read(tmp_path, f"message: {text}".encode())


SOURCES = [
    SCHEMAS / name
    for name in ("messages/fetch.yaml", "messages/api_versions.yaml", "records/record_batch.yaml", "errors.yaml",
                 "coordinator/consumer_offsets/group_metadata.yaml", "enumerations.yaml", "headers.yaml",
                 "configs.yaml")
]  # fmt: skip
PIECES = ["null", "1", "-1", "1e3", ".nan", "true", "[]", "{}", "[1]", "{a: b}", "x", '""', "none", "0+", "self",
          "int8", "records", "Message", "99999999999", "[[]]", '"\\0"', "*a", "&a x", "!!str x"]  # fmt: skip


@MANY
@given(st.data())
def test_damaged_schemas(tmp_path: Path, data: st.DataObject) -> None:
    lines = data.draw(st.sampled_from(SOURCES)).read_text().splitlines(keepends=True)
    first = data.draw(st.integers(0, max(0, len(lines) - 30)))
    lines = lines[:8] + lines[first + 8 : first + 38]
    for _ in range(data.draw(st.integers(1, 4))):
        index = data.draw(st.integers(0, len(lines) - 1))
        match data.draw(st.sampled_from(["drop", "twice", "value", "cut", "indent"])):
            case "drop":
                lines[index] = ""
            case "twice":
                lines[index] *= 2
            case "value":
                key, colon, value = lines[index].partition(": ")
                end = "}" * value.rstrip().endswith("}") + "\n"
                lines[index] = f"{key}{colon}{data.draw(st.sampled_from(PIECES))}{end}" if colon else "x\n"
            case "cut":
                lines[index] = lines[index][: data.draw(st.integers(0, len(lines[index])))]
            case _:
                lines[index] = "  " + lines[index]
    read(tmp_path, "".join(lines).encode())
