"""What every test run shares: engine and event loops, how hypothesis searches, and that interrupts arrive."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import Phase, settings

from kafkawire.sdk.protocol.engines.selection import ENGINE, ENGINES
from tests.certificates import Certificates
from tests.event_loops import LOOP, makes_loops
from tests.needs import OPENSSL

pytest_plugins = ["tests.thorough"]

# A busy machine takes long for an example; the time limit is the test's. The same examples in every run, so that a test
# that passed passes again; KAFKAWIRE_TEST_EXAMPLES=random looks for others, and unshrunk ends with the verdict alone.
settings.register_profile("fixed", deadline=None, derandomize=True)
settings.register_profile("random", deadline=None, print_blob=True)
settings.register_profile("unshrunk", deadline=None, derandomize=True, phases=(Phase.explicit, Phase.generate))
settings.load_profile(os.environ.get("KAFKAWIRE_TEST_EXAMPLES", "fixed"))

# A shell starts its background jobs with interrupts ignored, and so would be every process that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Collect no garbage while tests are collected: there is none, and looking for it takes two fifths of the time."""
    gc.disable()


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that name the engine they try, which is then the same whichever is in use: they run once."""
    for item in items:
        values = (
            item.callspec.params.values() if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ()
        )
        if "engines" in item.path.parts or any(isinstance(each, str) and each in ENGINES for each in values):
            item.add_marker(pytest.mark.names_engine)


def pytest_collection_finish() -> None:
    """Leave what collection has made out of every later search for garbage: it stays to the end of the run."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="module")
def quick_collection() -> None:
    """Have searches for garbage look at what the tests of a module make alone: a full search takes half a second."""
    gc.collect()
    gc.freeze()


def pytest_report_header(config: pytest.Config) -> str:
    """Name the engine and the event loops that this run tests."""
    return f"kafkawire engine: {ENGINE}, event loops: {LOOP}"


@pytest.fixture(scope="session", autouse=True)
def event_loops() -> Iterator[None]:
    """Have every event loop of the run be of the kind that was asked for."""
    with makes_loops(LOOP):
        yield


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates for tests of TLS."""
    OPENSSL.require()
    return Certificates(tmp_path_factory.mktemp("certificates"))
