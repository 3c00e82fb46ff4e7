"""Entities have the paths of Kafka's nodes in ZooKeeper, whatever their names contain.

Method: convert entities to paths and back; the expected paths are those that Kafka 3.9 writes.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.metadata.entity_configs import DEFAULT, ConfigEntity, EntityConfigStore, user_entity
from tests.reference_broker.security.kept_entity_configs import KeptEntityConfigs

PATHS = {
    ConfigEntity("alice"): "users/alice",
    ConfigEntity(DEFAULT): "users/<default>",
    ConfigEntity("<default>"): "users/%3Cdefault%3E",
    ConfigEntity("CN=a b,O=c/d*"): "users/CN%3Da%20b%2CO%3Dc%2Fd%2A",
    ConfigEntity("alice", "app"): "users/alice/clients/app",
    ConfigEntity("alice", DEFAULT): "users/alice/clients/<default>",
    ConfigEntity(DEFAULT, "clients"): "users/<default>/clients/clients",
    ConfigEntity(client_id="ü"): "clients/%C3%BC",
    ConfigEntity(client_id=DEFAULT): "clients/<default>",
    ConfigEntity(ip="::1"): "ips/%3A%3A1",
    ConfigEntity(ip=DEFAULT): "ips/<default>",
}


@pytest.mark.parametrize("entity", PATHS, ids=PATHS.values())
def test_paths(entity: ConfigEntity) -> None:
    assert entity.path == PATHS[entity]
    assert ConfigEntity.parse(PATHS[entity]) == entity


@pytest.mark.parametrize(
    "path",
    ["", "users", "topics/t", "users/a/b", "users/a/clients", "users/a/users/b", "ips/a/clients/b", "clients/a/b/c/d"],
)
def test_paths_of_nothing(path: str) -> None:
    with pytest.raises(ValueError, match="not the path of a user, a client id or an address"):
        ConfigEntity.parse(path)


def test_names_that_no_path_can_contain() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        _ = ConfigEntity("\ud800").path
    with pytest.raises(ValueError, match="hexadecimal"):
        ConfigEntity.parse("users/%2")


def test_a_user() -> None:
    assert user_entity("alice") == ConfigEntity(user="alice")
    assert isinstance(KeptEntityConfigs(), EntityConfigStore)
