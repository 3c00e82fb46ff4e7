"""ControlledShutdown: a stopping broker asks the controller of a ZooKeeper-based cluster to elect other leaders.

0: lowest version, with a different header. 1: client id in the header. 2: broker epoch (KIP-380). 3: flexible.

The stopping broker asks again as long as it leads partitions. As in Apache Kafka, a broker that is not the controller
answers STALE_CONTROLLER_EPOCH.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkawire.reference_broker.cluster.controller.asked_controller import AskedController
from kafkawire.reference_broker.requests.api_handlers import Scope, serves
from kafkawire.reference_broker.requests.authorization import require_on_cluster
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation, given_later
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.sdk.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from kafkawire.sdk.protocol.tables.apis import KNOWN_APIS, ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]


@serves(ApiKey.CONTROLLED_SHUTDOWN, KNOWN_APIS[ApiKey.CONTROLLED_SHUTDOWN].known_versions, scope=Scope.CLUSTER)
def handle(
    call: Call, request: ControlledShutdownRequest, *, authorizer: Authorizer, controller: AskedController
) -> ControlledShutdownResponse | DelayedOperation:
    """Handle ControlledShutdown; the response waits until the other leaders are stored.

    Raises:
        BrokerError: CLUSTER_AUTHORIZATION_FAILED.
    """
    require_on_cluster(authorizer, call, AclOperation.CLUSTER_ACTION)

    def ask(give: Callable[[ControlledShutdownResponse], None]) -> None:
        def done(response: ControlledShutdownResponse) -> None:
            if response.error_code == ErrorCode.NOT_CONTROLLER:
                response.error_code = ErrorCode.STALE_CONTROLLER_EPOCH
            give(response)

        controller.shut_down_broker(request, done)

    return given_later(ask)
