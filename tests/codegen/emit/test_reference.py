"""The reference contains everything in the schemas, every link has a target, and the HTML is well-formed.

Method: in the whole project's reference, follow each link and look up each message, field and error; check the page of
one small message in detail.
"""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import normpath

import pytest

from kafkawire.codegen import SCHEMAS
from kafkawire.codegen.emit.reference import reference_tree
from kafkawire.codegen.generate import reference_of
from kafkawire.codegen.load import load_file, load_folder
from kafkawire.codegen.record_formats import load_record_formats
from kafkawire.codegen.spec import ApiFile
from kafkawire.codegen.tables import load_enumerations, load_errors
from tests.codegen.emit.html_reader import Reader

SAMPLE = """\
api: Ping
key: 900
listeners: [broker]
about: Is <anybody> there?
request:
  versions: 0-3
  flexible: 2+
  unstable: true
  fields:
    - {name: text, type: string, about: a & b}
    - name: items
      type: "[]Item"
      versions: 1+
      fields:
        - {name: index, type: int32, default: -1}
    - {name: rack, type: string?, versions: 2+, tag: 0, default: null, ignorable: true}
response:
  versions: 0-3
  fields: []
"""


@pytest.fixture(scope="module")
def tree() -> dict[Path, str]:
    return reference_of(SCHEMAS)


@pytest.fixture
def sample(tmp_path: Path) -> str:
    """Return the page of the sample message."""
    path = tmp_path / "ping.yaml"
    path.write_text(SAMPLE)
    return reference_tree({Path("messages/ping.yaml"): load_file(path)})[Path("messages/ping.html")]


def test_every_page_is_whole(tree: dict[Path, str]) -> None:
    for path, text in tree.items():
        if path.suffix == ".html":
            assert Reader(text).open == [], path


def test_links_lead_somewhere(tree: dict[Path, str]) -> None:
    targets = {path.as_posix(): set(re.findall(r'id="([^"]+)"', text)) for path, text in tree.items()}
    for path, text in tree.items():
        for link in re.findall(r'href="([^"]+)"', text):
            page, _, anchor = link.partition("#")
            target = normpath((path.parent / page).as_posix()) if page else path.as_posix()
            assert target in targets, (path, link)
            assert not anchor or anchor in targets[target], (path, link)


def test_every_message_has_its_page(tree: dict[Path, str]) -> None:
    for path, file in load_folder(SCHEMAS).items():
        text = tree[path.with_suffix(".html")]
        for message in file.messages:
            assert f'id="{message.name}"' in text
            for field in message.fields:
                assert field.name in text
        assert f'href="{path.with_suffix(".html").as_posix()}' in tree[Path("index.html")]


def test_tables(tree: dict[Path, str]) -> None:
    for error in load_errors(SCHEMAS / "errors.yaml"):
        assert f'id="{error.name}"' in tree[Path("errors.html")]
    enumerations, constants = load_enumerations(SCHEMAS / "enumerations.yaml")
    for item in (*enumerations, *constants):
        assert item.name in tree[Path("enumerations.html")]


def test_the_index_lists_apis_by_key(tree: dict[Path, str]) -> None:
    keys = [file.request.key for file in load_folder(SCHEMAS).values() if isinstance(file, ApiFile)]
    links = re.findall(r"<td[^>]*>(\d+)</td><td[^>]*><a href=\"messages/", tree[Path("index.html")])
    assert [int(key) for key in links] == sorted(key for key in keys if key is not None)


def test_record_formats(tree: dict[Path, str]) -> None:
    text = tree[Path("records.html")]
    for name, item in load_record_formats(SCHEMAS).items():
        assert f'id="{name}"' in text
        for field in item.fields:
            assert f"<code>{field.name}</code>" in text
            if field.const is not None:
                assert f"always {field.const}" in text


def test_page_of_an_api(sample: str) -> None:
    texts = Reader(sample).texts
    for expected in (
        "Is <anybody> there?",
        "API key 900",
        "accepted by the broker",
        "the newest version may still change",
        "flexible in 2-3",
        "a & b",
        "tag 0",
        "ignorable",
        "[]Item",
        "string?",
    ):
        assert expected in texts


def test_what_is_said_only_if_it_is_so(sample: str, tmp_path: Path) -> None:
    path = tmp_path / "other.yaml"
    path.write_text(SAMPLE.replace("2+\n", "2+\n  deprecated: 0-1\n", 1).replace("a & b}", "a & b, flexible: none}"))
    other = reference_tree({Path("messages/ping.yaml"): load_file(path)})[Path("messages/ping.html")]
    for words in ("deprecated: 0-1", "classic length"):
        assert Reader(other).texts.count(words) == 1
    for word in ("deprecated", "classic length"):
        assert not any(text.startswith(word) for text in Reader(sample).texts)


def test_changes_of_versions(sample: str) -> None:
    changes = [re.sub("<[^>]+>", " ", item).split() for item in re.findall(r"<li><code>v.*?</li>", sample)]
    assert [" ".join(words) for words in changes] == [
        "v1 items added, []Item",
        "v2 becomes flexible ; rack added, string?, tag 0",
        "v3 the same bytes",
        "v1 the same bytes",
        "v2 the same bytes",
        "v3 the same bytes",
    ]


def test_layouts_of_versions(sample: str) -> None:
    layouts = re.findall(r"<summary>(.*?)</summary>", sample)
    assert [re.sub("<[^>]+>", " ", text).split() for text in layouts] == [
        ["Version", "0", "classic,", "1", "field"],
        ["Version", "1", "classic,", "3", "fields"],
        ["Versions", "2-3", "flexible,", "4", "fields"],
    ]
    for words in ("int16 length, then UTF-8", "varint of length + 1, then UTF-8", "int32 count, then the elements"):
        assert words in sample
    assert "tagged field 0: varint of length + 1, 0 for null, then UTF-8" in sample


def test_layout_of_a_structure_that_may_be_null(tmp_path: Path) -> None:
    inner = "fields: [{name: number, type: int8}]"
    path = tmp_path / "ping.yaml"
    path.write_text(
        SAMPLE.replace(
            "    - {name: rack",
            f"    - {{name: whole, type: Whole?, default: null, {inner}}}\n"
            f"    - {{name: last, type: Last?, versions: 2+, tag: 1, default: null, {inner}}}\n    - {{name: rack",
        )
    )
    page = reference_tree({Path("messages/ping.yaml"): load_file(path)})[Path("messages/ping.html")]
    assert "int8, -1 for null, then its fields<" in page
    assert "tagged field 1: varint, 0 for null, then its fields and tagged fields<" in page


def test_removed_versions_say_which_release_removed_them(tree: dict[Path, str]) -> None:
    page = tree[Path("messages/controlled_shutdown.html")]
    assert page.count("<li>0-3 removed in 4.0</li>") == 2
    assert len(re.findall("fields?, removed in 4.0", page)) == len(re.findall("<details", page)) > 0
    produce = tree[Path("messages/produce.html")]
    assert "<li>versions 3-13</li><li>0-2 removed in 4.0</li>" in produce.replace("\n", "")
    assert re.search(r"Versions 0-2</?[^>]*>?.*?removed in 4.0", produce)
    index = tree[Path("index.html")]
    assert "3-13" in index
    assert "0-2 removed in 4.0" in index
    assert "0-3 removed in 4.0" in index
