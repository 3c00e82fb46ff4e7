"""Every handler registers itself for existing versions, and the broker advertises no other versions.

Method: load the registry, and compare it with the modules of the package and with the table of APIs; add valid and
invalid handlers for the example's API to it.
"""

import pkgutil
from functools import partial
from importlib import import_module
from inspect import signature
from typing import Any, get_origin, get_type_hints

import pytest

from examples.own_api.tables.apis import APIS as OWN
from examples.own_api.tables.apis import ApiKey as OwnKey
from kafkawire.reference_broker import apis
from kafkawire.reference_broker.apis import load
from kafkawire.reference_broker.requests.api_handlers import (
    CLUSTER_PARTS,
    PARTS,
    REGISTERED,
    ApiHandler,
    Scope,
    serves,
    since,
)
from kafkawire.reference_broker.server import BackgroundBroker
from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.protocol.api_registry import KAFKA_APIS
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.tables.apis import APIS, KNOWN_APIS, ApiKey
from kafkawire.sdk.protocol.versions import VersionRange

GREET = OWN[OwnKey.GREET]

#: Values for versions that a type checker would reject.
ANYTHING: list[Any] = ["0", "1"]


def test_every_module_serves_an_api():
    served = load().handlers | load(scope=Scope.CLUSTER).handlers
    modules = {module.name for module in pkgutil.iter_modules(apis.__path__)}
    assert {entry.handle.__module__.rpartition(".")[2] for entry in served.values()} == modules


@pytest.mark.parametrize("scope", [Scope.ALONE, Scope.CLUSTER])
def test_handlers_are_in_the_order_of_their_keys(scope):
    served = load(scope=scope).handlers
    assert list(served) == sorted(served)


def test_served_versions_exist():
    for entry in load().handlers.values():
        known, stable = entry.api.known_versions, entry.api.stable_versions
        assert known.first <= entry.versions.first <= entry.versions.last <= stable.last


def test_every_module_says_what_each_version_changed():
    for entry in [*load().handlers.values(), *load(scope=Scope.CLUSTER).handlers.values()]:
        text = import_module(entry.handle.__module__).__doc__
        assert text
        assert any(f"{version}: " in text for version in range(20)), entry.handle.__module__


def test_since():
    assert since(ProduceRequest.TopicProduceData, "topic_id") == 13


def handle(call, request):
    """Answer nothing."""


async def handle_later(call, request):
    """Answer nothing, later."""


def handle_in_parts(call, request):
    """Answer nothing, in parts."""
    yield


async def handle_in_parts_later(call, request):
    """Answer nothing, in parts, later."""
    yield


class Later:
    """Answers nothing, later."""

    async def __call__(self, call, request):
        pass


class Now:
    """Answers nothing."""

    def __call__(self, call, request, *others, more=()):
        pass


FORMS = [Now(), Now().__call__, partial(Now(), more=7), partial(max, 1), lambda *asked: None]


@pytest.mark.parametrize("function", FORMS)
def test_handlers_of_every_form(function):
    assert ApiHandler(GREET, function).handle == function


def handle_of(call, request, *, groups, topics, more=()):
    """Return the parts of the broker that the handler received."""
    return groups, topics, more


@pytest.mark.parametrize("function", [handle_of, partial(handle_of, more=())])
def test_a_handler_gets_the_parts_that_it_names(function):
    parts = {name: f"the {name}" for name in PARTS}
    assert ApiHandler(GREET, function).with_parts(parts)(None, None) == ("the groups", "the topics", ())
    assert ApiHandler(GREET, handle).with_parts(parts) is handle


def test_a_broker_has_the_parts_that_handlers_may_name(bench):
    assert set(bench.core.parts) == PARTS


def handle_orders(call, request, *, control_requests):
    """Return the part of the broker that the handler received."""
    return control_requests


def test_only_handlers_of_a_cluster_may_name_its_parts():
    parts = {name: f"the {name}" for name in CLUSTER_PARTS}
    for_cluster = ApiHandler(GREET, handle_orders, scope=Scope.CLUSTER)
    assert for_cluster.with_parts(parts)(None, None) == "the control_requests"
    for scope in (Scope.ALONE, Scope.BOTH):
        with pytest.raises(TypeError, match="takes unknown parameters control_requests; available parts: advertised"):
            ApiHandler(GREET, handle_orders, scope=scope)


def test_the_parts_of_every_handler_are_of_the_type_that_it_says(bench):
    for served in load().handlers.values():
        hints = get_type_hints(served.handle)
        for name in PARTS & set(signature(served.handle).parameters):
            assert isinstance(bench.core.parts[name], get_origin(hints[name]) or hints[name]), served


def test_own_handlers_stand_beside_the_brokers():
    alone, both = load(), load([ApiHandler(GREET, handle, VersionRange(0, 1), advertised_from=1)])
    assert alone.apis is KAFKA_APIS
    assert both.apis[OwnKey.GREET] == GREET
    assert list(both.handlers) == [*alone.handlers, OwnKey.GREET]
    added = both.handlers[OwnKey.GREET]
    assert (added.handle, added.versions, added.advertised) == (handle, (0, 1), (1, 1))
    assert repr(added) == "<handler of Greet (910) versions 0-1>"
    assert OwnKey.GREET not in load().handlers, "the handlers belong to one broker"


@pytest.fixture
def registered():
    """Handlers with two scopes, for APIs that have no handler; one of them runs only on a controller."""
    load()
    before = {key for key, _ in REGISTERED}
    serves(ApiKey.ENVELOPE, scope=Scope.CLUSTER, only_on_controller=True)(handle)
    serves(ApiKey.VOTE, scope=Scope.ALONE)(handle)
    yield before
    del REGISTERED[ApiKey.ENVELOPE, Scope.CLUSTER], REGISTERED[ApiKey.VOTE, Scope.ALONE]


ONLY_ALONE = {
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    ApiKey.DELETE_SHARE_GROUP_STATE,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    ApiKey.LIST_CONFIG_RESOURCES,
    ApiKey.PUSH_TELEMETRY,
    ApiKey.READ_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    ApiKey.REMOVE_RAFT_VOTER,
    ApiKey.SHARE_ACKNOWLEDGE,
    ApiKey.SHARE_FETCH,
    ApiKey.SHARE_GROUP_DESCRIBE,
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.WRITE_SHARE_GROUP_STATE,
    ApiKey.STREAMS_GROUP_DESCRIBE,
    ApiKey.STREAMS_GROUP_HEARTBEAT,
}


ONLY_IN_CLUSTER = {
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.ALTER_PARTITION,
    ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
}


def test_a_broker_serves_the_apis_of_its_scope(registered):
    alone, cluster = load(), load(scope=Scope.CLUSTER)
    assert {*alone.handlers} == {*registered, ApiKey.VOTE} - ONLY_IN_CLUSTER
    assert {*cluster.handlers} == {*registered, ApiKey.ENVELOPE} - ONLY_ALONE
    for served in (alone, cluster):
        assert list(served.handlers) == sorted(served.handlers)
        served.apis.check_served({key: each.versions for key, each in served.handlers.items()})


def test_an_api_may_have_a_handler_for_each_scope():
    alone, cluster = (load(scope=scope).handlers[ApiKey.UPDATE_FEATURES] for scope in (Scope.ALONE, Scope.CLUSTER))
    assert alone.handle is not cluster.handle
    assert (alone.versions, cluster.versions) == ((0, 2), (0, 1))


def test_scopes_of_own_handlers():
    own = [ApiHandler(GREET, handle, scope=scope) for scope in Scope]
    found = [[OwnKey.GREET in load([each], scope).handlers for each in own] for scope in (Scope.ALONE, Scope.CLUSTER)]
    assert found == [[True, True, False], [True, False, True]]
    assert own[0].scope is ApiHandler(GREET, handle).scope is Scope.BOTH


def test_apis_of_the_controller():
    handlers = load().handlers
    marked = {key for key, each in handlers.items() if each.only_on_controller}
    topics = {ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS}
    assert marked == {*topics, ApiKey.ALTER_USER_SCRAM_CREDENTIALS}


def test_a_handler_may_name_removed_versions():
    added = load(scope=Scope.CLUSTER).handlers[ApiKey.CONTROLLED_SHUTDOWN]
    assert added.versions == added.advertised == (0, 3)
    fetch = KNOWN_APIS[ApiKey.FETCH]
    assert ApiHandler(fetch, handle, VersionRange(0, 5)).versions == (0, 5)
    assert ApiHandler(fetch, handle).versions.first == fetch.versions.first > 0
    with pytest.raises(LocalProtocolError, match="versions must be within none, got none"):
        ApiHandler(KNOWN_APIS[ApiKey.UPDATE_METADATA], handle)
    with pytest.raises(LocalProtocolError, match="versions must be within 0-8, got 0-9"):
        ApiHandler(KNOWN_APIS[ApiKey.UPDATE_METADATA], handle, VersionRange(0, 9))


def test_wrong_scope():
    wrong: Any = "alone"
    with pytest.raises(TypeError, match="Greet: scope must be a Scope, got 'alone'"):
        ApiHandler(GREET, handle, scope=wrong)


def test_stable_versions_are_served_unless_said_otherwise():
    assert ApiHandler(GREET, handle).versions == GREET.versions
    assert ApiHandler(GREET._replace(unstable=True), handle).versions == (0, 1)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((OwnKey.GREET, handle), TypeError, "api must be an Api from a generated table, .* 910>"),
        ((GREET.request, handle), TypeError, "api must be an Api"),
        ((GREET, None), TypeError, "Greet: the handler None is not a function"),
        ((GREET, handle_later), TypeError, "Greet: the handler .* is a coroutine function"),
        ((GREET, partial(handle_later)), TypeError, "Greet: the handler .* is a coroutine function"),
        ((GREET, Later()), TypeError, "Greet: the handler .* is a coroutine function"),
        ((GREET, handle_in_parts_later), TypeError, "Greet: the handler .* is an async generator function"),
        ((GREET, lambda: None), TypeError, "Greet: the handler .* cannot be called with a Call and a request: too"),
        ((GREET, lambda a, b, c: None), TypeError, "cannot be called with a Call and a request: missing a .*'c'"),
        ((GREET, Later), TypeError, "Greet: the handler"),
        (
            (GREET, lambda a, b, *, grops: None),
            TypeError,
            "takes unknown parameters grops; available parts: advertised, authorizer, broker_con",
        ),
        ((GREET, handle, 5), TypeError, "Greet: versions must be a VersionRange, got 5"),
        (
            (GREET, handle, VersionRange(*ANYTHING)),
            TypeError,
            r"Greet: versions must be a VersionRange, got VersionRange\(first='0'",
        ),
        ((GREET, handle, None, "0"), TypeError, "Greet: advertised_from must be an int, got '0'"),
        ((GREET, handle, None, True), TypeError, "Greet: advertised_from must be an int, got True"),
        ((GREET, handle, None, -1), LocalProtocolError, "advertised_from must be from 0 to 2, got -1"),
        ((GREET, handle, None, -32769), LocalProtocolError, "advertised_from must be from 0 to 2, got -32769"),
        ((GREET, handle, VersionRange(0, 3)), LocalProtocolError, "versions must be within 0-2, got 0-3"),
        ((GREET, handle, VersionRange(2, 1)), LocalProtocolError, "versions must be within 0-2, got none"),
        ((GREET, handle, None, 3), LocalProtocolError, "advertised_from must be from 0 to 2, got 3"),
    ],
)
def test_wrong_handlers(arguments, error, text):
    api, function, *rest = arguments
    with pytest.raises(error, match=text):
        ApiHandler(api, function, *rest[:1], advertised_from=rest[1] if len(rest) > 1 else None)


@pytest.mark.parametrize(
    ("handlers", "error", "text"),
    [
        (None, TypeError, "handlers must be a sequence of ApiHandler, got None"),
        (7, TypeError, "handlers must be a sequence of ApiHandler, got 7"),
        ([910, 911], TypeError, r"handlers\[0\] must be an ApiHandler, got 910"),
        ([ApiHandler(GREET, handle), handle], TypeError, r"handlers\[1\] must be an ApiHandler, got <function handle"),
        ({OwnKey.GREET: handle}, TypeError, r"handlers\[0\] must be an ApiHandler, got <ApiKey.GREET: 910>"),
        ([ApiHandler(GREET, handle)] * 2, LocalProtocolError, r"Greet \(910\).* already has the handler"),
        (
            [ApiHandler(GREET, handle), ApiHandler(GREET, handle)],
            LocalProtocolError,
            r"Greet \(910\).* already has the handler",
        ),
        ([ApiHandler(APIS[ApiKey.METADATA], handle)], LocalProtocolError, r"Metadata \(3\).* already has the handler"),
        ([ApiHandler(GREET._replace(name="Other"), handle)], LocalProtocolError, "it has no request"),
        ([ApiHandler(GREET._replace(key=3), handle)], LocalProtocolError, "share the key 3"),
        ([ApiHandler(GREET._replace(key=60), handle)], LocalProtocolError, "share the key 60"),
        ([ApiHandler(GREET._replace(name="Fetch"), handle)], LocalProtocolError, "share the name Fetch"),
    ],
)
def test_wrong_sets_of_handlers_are_refused_when_the_broker_is_made(handlers, error, text):
    with pytest.raises(error, match=text):
        BackgroundBroker(None, handlers=handlers)
