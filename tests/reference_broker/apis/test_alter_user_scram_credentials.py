"""AlterUserScramCredentials stores what verifies a password; only the controller of a cluster handles it.

Method: `quota_cases.py` has the answers of Apache Kafka 4.3, which `test_alter_client_quotas.py` checks. The
tests here cover what is stored, a disk that fails, and a broker that is not the controller.
"""

from __future__ import annotations

import errno

from kafkawire.reference_broker.apis import load
from kafkawire.reference_broker.metadata.entity_configs import ConfigEntity, EntityConfigStore
from kafkawire.reference_broker.requests.dispatcher import Dispatcher
from kafkawire.reference_broker.security.scram_credentials import StoredScramCredentials
from kafkawire.reference_broker.storage.checkpoints import ENTITY_CONFIGS
from kafkawire.reference_broker.storage.disk.memory import DiskCall, MemoryDisk
from kafkawire.sdk.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from kafkawire.sdk.protocol.scram import make_credential, salted_password
from kafkawire.sdk.protocol.tables.enums import ScramMechanism
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.quota_cases import comparable
from tests.reference_broker.broker_bench import BrokerBench
from tests.reference_broker.security.kept_entity_configs import KeptEntityConfigs

Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
SHA_256 = ScramMechanism.SCRAM_SHA_256


def upsertion(user: str) -> Upsertion:
    return Upsertion(user, SHA_256, 4096, b"salt", salted_password("SCRAM-SHA-256", "secret", b"salt", 4096))


def test_the_credential_is_that_of_the_password() -> None:
    bench = BrokerBench(MemoryDisk())
    bench.ask(AlterUserScramCredentialsRequest([], [upsertion("alice")]))
    bench.crash()
    store = bench.core.parts["entity_configs"]
    assert isinstance(store, EntityConfigStore)
    stored = StoredScramCredentials(store).scram_credential("SCRAM-SHA-256", "alice")
    assert stored == make_credential("SCRAM-SHA-256", "secret", b"salt", 4096)


def test_a_disk_that_fails() -> None:
    disk = MemoryDisk()
    bench = BrokerBench(disk)

    def plan(call: DiskCall) -> None:
        if call.path.startswith(ENTITY_CONFIGS):
            raise OSError(errno.EIO, "planned")

    disk.plan = plan
    request = AlterUserScramCredentialsRequest([Deletion("bob", SHA_256)], [upsertion("alice")])
    codes = {user: code for user, (code, _) in comparable(bench.ask(request)).items()}
    assert codes == {"alice": ErrorCode.KAFKA_STORAGE_ERROR, "bob": ErrorCode.RESOURCE_NOT_FOUND}


def test_a_cluster() -> None:
    bench, store = BrokerBench(MemoryDisk()), KeptEntityConfigs(is_registry=True)
    bench.use(entity_configs=store)
    store.set(ConfigEntity("alice"), producer_byte_rate=5)
    assert comparable(bench.ask(AlterUserScramCredentialsRequest([], [upsertion("alice")]))) == {"alice": (0, "")}
    assert set(store.of(ConfigEntity("alice"))) == {"producer_byte_rate", "SCRAM-SHA-256"}


def test_a_broker_that_is_not_the_controller() -> None:
    bench = BrokerBench(MemoryDisk())
    before = bench.core.requests
    bench.core.requests = Dispatcher(load(), bench.core.parts, before.services, before.frame_bytes_max, lambda: False)
    request = AlterUserScramCredentialsRequest([Deletion("bob", SHA_256)], [upsertion("alice")])
    response = comparable(bench.ask(request))
    assert {user: code for user, (code, _) in response.items()} == dict.fromkeys(
        ("alice", "bob"), ErrorCode.NOT_CONTROLLER
    )
