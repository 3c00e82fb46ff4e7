"""Set up every test run: hypothesis, interrupts, garbage collection, markers and event loops."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import Phase, settings

from kafkawire.sdk.protocol.engines.selection import ENGINE, ENGINES
from tests.certificates import Certificates
from tests.event_loops import LOOP_KIND, loops_of_kind
from tests.needs import OPENSSL
from tests.skipped_time import skipped_time

pytest_plugins = ["tests.thorough"]

# Examples have no deadline, because a busy machine would miss it, but each test has a time limit. By default, each run
# uses the same examples, so a test that passed passes again; KAFKAWIRE_TEST_EXAMPLES=random draws new ones. `make test`
# uses only the first few. `unshrunk` is for `tools/mutants.py`, which needs a verdict, not a small example.
settings.register_profile("fixed", deadline=None, derandomize=True)
settings.register_profile("few", deadline=None, derandomize=True, max_examples=25)
settings.register_profile("random", deadline=None, print_blob=True)
settings.register_profile("unshrunk", deadline=None, derandomize=True, phases=(Phase.explicit, Phase.generate))
settings.load_profile(os.environ.get("KAFKAWIRE_TEST_EXAMPLES", "fixed"))

# A shell starts background jobs with SIGINT ignored; the processes that tests interrupt would inherit this.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Disable garbage collection during test collection: it finds nothing and takes two fifths of the time."""
    gc.disable()


@pytest.hookimpl(tryfirst=True)  # before `-m` evaluates the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that name their engines: the engine in use makes no difference, so they run only once."""
    for item in items:
        values = (
            item.callspec.params.values() if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ()
        )
        if "engines" in item.path.parts or any(isinstance(each, str) and each in ENGINES for each in values):
            item.add_marker(pytest.mark.names_engine)


def pytest_collection_finish() -> None:
    """Freeze the objects from test collection: they live until the end, so garbage collections should skip them."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="module")
def frozen_heap() -> None:
    """Freeze all objects before a module's tests: a full garbage collection would take half a second."""
    gc.collect()
    gc.freeze()


def pytest_report_header(config: pytest.Config) -> str:
    """Name the engine and the event loops that this run tests."""
    return f"kafkawire engine: {ENGINE}, event loops: {LOOP_KIND}"


@pytest.fixture(scope="session", autouse=True)
def event_loops() -> Iterator[None]:
    """Make every event loop in the run be of the kind named in `KAFKAWIRE_TEST_LOOP`."""
    with loops_of_kind(LOOP_KIND):
        yield


@pytest.fixture
def time_skips() -> Iterator[None]:
    """Skip the time that event loops would wait; see `tests/skipped_time.py`."""
    with skipped_time():
        yield


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates for TLS tests."""
    OPENSSL.require()
    return Certificates(tmp_path_factory.mktemp("certificates"))
