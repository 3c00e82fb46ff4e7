"""Files in one folder that contradict each other are refused, and each contradiction is located.

Method: read small folders with one contradiction each, as `load_folder` reads them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire.codegen.load import load_folder
from kafkawire.codegen.located import SchemaError
from tests.codegen.texts import API, A

METADATA = "message: {}\nkind: metadata\ntype: 4\nversions: 0\nfields: []\n"
GONE = "message: A\nkind: metadata\ntype: 4\nversions: none\nfields: []\n"


def folder(tmp_path: Path, texts: dict[str, str]) -> Path:
    for name, text in texts.items():
        path = tmp_path / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ({"a/a": METADATA.format("A"), "b/b": METADATA.format("A")}, "b.yaml:1: A is already defined in a/a.yaml"),
        ({"a": A, "b": API.format(name="A", key=2)}, "b.yaml:5: ARequest is already defined in a.yaml"),
        ({"a": A, "b": API.format(name="B", key=1)}, "b.yaml:5: BRequest: key 1 is already used by ARequest"),
        ({"l/a": METADATA.format("A"), "l/b": METADATA.format("B")}, "b.yaml:1: B: key 4 is already used by A"),
        ({"a-b": A}, "a-b.yaml: the path is not valid as a module name: 'a-b' is not snake_case"),
        ({"import": A}, "import.yaml: the path is not valid as a module name: 'import' is a Python keyword"),
        ({"a": A, "messages/a": API.format(name="B", key=2)}, "messages/a.yaml: the module name a is already used by"),
        ({"a": A, "a/b": API.format(name="B", key=2)}, "a.yaml: the module name a is already used for the package of"),
        ({"a": METADATA.format("A")}, "a.yaml:1: A: the folder of a metadata record must be named after"),
    ],
)  # fmt: skip
def test_files_that_do_not_fit_together(tmp_path: Path, texts: dict[str, str], reason: str) -> None:
    with pytest.raises(SchemaError, match=reason) as caught:
        load_folder(folder(tmp_path, texts))
    assert len({problem.reason.replace("Response", "Request") for problem in caught.value.problems}) == 1


@pytest.mark.parametrize(
    ("key", "version", "reason"),
    [
        ("request_header", 5, "5 is not a version of RequestHeader, which has 0-2"),
        ("first_request_header", 7, "7 is not a version of RequestHeader, which has 0-2"),
        ("response_header", -3, "-3 is not a version of ResponseHeader, which has 0-1"),
    ],
)
def test_headers_that_there_are_not(tmp_path: Path, key: str, version: int, reason: str) -> None:
    with pytest.raises(SchemaError, match=f"a.yaml:10: A: {key}: {reason}$"):
        load_folder(folder(tmp_path, {"a": f"{A}{key}: {version}\n"}))


def test_headers_of_the_folder_count(tmp_path: Path) -> None:
    header = "message: {}\nkind: header\nversions: 0-5\nflexible: 5\nfields: []\n"
    headers = "---\n".join(map(header.format, ("RequestHeader", "ResponseHeader")))
    texts = {"a": A + "request_header: 5\nresponse_header: 3\n", "headers": headers}
    assert len(load_folder(folder(tmp_path, texts))) == 2


def test_what_is_no_longer_there_is_of_no_topic(tmp_path: Path) -> None:
    assert list(load_folder(folder(tmp_path, {"a": GONE}))) == [Path("a.yaml")]
