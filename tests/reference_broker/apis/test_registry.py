"""Every handler registers itself, for versions that exist, and nothing else is advertised.

Method: the registry is loaded and compared with the modules of the package and with the table of APIs.
"""

import pkgutil
from importlib import import_module

from kafkawire.reference_broker import apis
from kafkawire.reference_broker.apis.registry import Call, load, since
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.server_connection import Request
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey


def test_every_module_serves_an_api():
    served = load().handlers
    modules = {module.name for module in pkgutil.iter_modules(apis.__path__)} - {"registry"}
    assert {entry.handle.__module__.rpartition(".")[2] for entry in served.values()} == modules
    assert list(served) == sorted(served)


def test_served_versions_exist():
    for key, entry in load().handlers.items():
        low, high = APIS[key].versions
        assert low <= entry.versions[0] <= entry.versions[1] <= high - APIS[key].unstable


def test_every_module_says_what_each_version_changed():
    for entry in load().handlers.values():
        text = import_module(entry.handle.__module__).__doc__
        assert text
        assert any(f"{version}: " in text for version in range(20)), entry.handle.__module__


def test_calls_are_not_throttled_unless_somebody_says_so(bench):
    request = Request(APIS[ApiKey.METADATA], 12, 0, None, None, 10)
    call = Call(bench.core, request, bench.peer, 5)
    assert (call.client_id, call.now_ms, call.throttle_ms) == ("", 5, 0)


def test_since():
    assert since(ProduceRequest.TopicProduceData, "topic_id") == 13
