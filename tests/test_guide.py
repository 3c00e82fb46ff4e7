"""Every program in the documentation runs, and does what its page says.

Method: join the Python blocks of each page, in order, into one program, and run it in a separate process, with a broker
and with warnings as errors. Blocks that begin with a file name form a test suite, which pytest runs.
`tests/sdk/spark/test_pages.py` runs the pages about Spark, which need a JVM, and `tests/test_own_api.py` runs the one
about a user's own APIs. `tests/kafka/test_guide.py` runs some of them on Apache Kafka. `tests/test_type_checkers.py`
checks all of them with mypy and pyright.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.guide import FRAGMENTS, PAGES, ROOT, blocks, fenced, files, program, run, section
from tests.needs import OPENSSL

#: Pages that other modules run.
ELSEWHERE = {"README", "add-an-api-of-your-own", *(page for page in PAGES if page.startswith("spark"))}

#: Pages whose programs are test files for pytest.
SUITES = {"testing", "add-an-api-to-the-broker"}


@pytest.mark.parametrize("page", sorted(PAGES.keys() - ELSEWHERE - SUITES - FRAGMENTS))
def test_the_programs_run(page: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(program(page) + "broker.close()\n")
    run("program.py", folder=tmp_path)


def test_the_test_suite_passes(tmp_path: Path) -> None:
    OPENSSL.require()
    for name, text in files("testing").items():
        (tmp_path / name).write_text(text)
    run("-m", "pytest", "-q", "-p", "no:cacheprovider", folder=tmp_path)


def test_the_secured_broker(tmp_path: Path) -> None:
    """Its commands, its file and its programs work in this order; only the ports are free ones."""
    OPENSSL.require()
    page = section("security", "A secured broker")
    certificate, broker = fenced("sh", page)
    (properties,) = fenced("properties", page)
    (tmp_path / "secured.properties").write_text(re.sub(r":909[23]", ":0", properties))
    subprocess.run(["sh", "-ec", certificate], check=True, capture_output=True, cwd=tmp_path)
    check, start = ([sys.executable, "-m", *line.split()] for line in broker.splitlines())
    checked = subprocess.run(check, check=True, capture_output=True, text=True, cwd=tmp_path).stdout
    assert "Warnings:" not in checked
    assert "Options without effect:" not in checked
    assert "listener " not in checked, "nothing is unsafe about the listeners"
    with subprocess.Popen(start, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        try:
            assert process.stdout is not None
            admin, clients = re.findall(r"(?:ADMIN|CLIENTS)://(\S+?),? ", process.stdout.readline())
            for name, text in files("security").items():
                (tmp_path / name).write_text(text.replace("127.0.0.1:9092", admin).replace("localhost:9093", clients))
            run("first_user.py", folder=tmp_path)
            assert "offset=0" in run("orders.py", folder=tmp_path)
        finally:
            process.kill()


def test_the_topics_of_tests_differ(tmp_path: Path) -> None:
    """Tests whose ids differ only in characters illegal in topic names still get different, legally named topics."""
    (tmp_path / "conftest.py").write_text(files("testing")["conftest.py"])
    (tmp_path / "test_topics.py").write_text(
        "import pytest\n"
        "from kafkawire.sync import Admin\n"
        "topics = set()\n"
        "@pytest.mark.parametrize('case', ['a b', 'a/b', 'a-b', 'a.b', 'a_b', 'ä', 'ö', 'x' * 300 + 'y', 'x' * 300])\n"
        "def test_topic(case, broker, topic):\n"
        "    with Admin(broker.bootstrap) as admin:\n"
        "        admin.create_topics(topic)\n"  # refused if another test uses the topic, or if the name is illegal
        "    topics.add(topic)\n"
        "def test_all():\n"
        "    assert len(topics) == 9\n"
    )
    run("-m", "pytest", "-q", "-p", "no:cacheprovider", folder=tmp_path)


def test_the_broker_serves_the_api_that_the_page_adds(tmp_path: Path) -> None:
    """The page's blocks (the handler, its test and a client) form one module, which pytest runs."""
    (tmp_path / "conftest.py").write_text("from tests.reference_broker.conftest import bench as bench\n")
    (tmp_path / "test_update_raft_voter.py").write_text(program("add-an-api-to-the-broker"))
    shown = run("-m", "pytest", "-q", "-s", "-c", str(ROOT / "pyproject.toml"), str(tmp_path), folder=ROOT)
    assert "VOTER_NOT_FOUND" in shown, shown


def test_no_other_blocks() -> None:
    """A code fence of another kind in the guide could be a program that no test runs."""
    for page in (ROOT / "docs" / "guide").glob("*.md"):
        named = blocks(page.stem) if page.stem in PAGES and page == PAGES[page.stem] else []
        assert page.read_text("utf-8").count("```") == 2 * len(named), page
    assert PAGES.keys() >= FRAGMENTS | ELSEWHERE | SUITES
