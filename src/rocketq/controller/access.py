"""What each request to a controller needs.

Brokers make themselves known for the cluster that they name, and sign with a user that may
change it, which their `innerClientAuthenticationCredentials` are.
"""

from typing import Final

from rocketq.common.access import Need, ResourceType
from rocketq.remoting.access.guard import Rules
from rocketq.remoting.access.needs import GET, UPDATE, of_cluster
from rocketq.remoting.codes import RequestCode as Code
from rocketq.remoting.wire.command import Command


def _cluster_of_broker(request: Command) -> tuple[Need, ...]:
    return (Need(ResourceType.CLUSTER, request.ext_fields.get("clusterName", ""), UPDATE),)


CONTROLLER_RULES: Final[Rules] = {
    Code.BROKER_HEARTBEAT: _cluster_of_broker,
    Code.CONTROLLER_ELECT_MASTER: _cluster_of_broker,
    Code.CONTROLLER_REGISTER_BROKER: _cluster_of_broker,
    Code.CONTROLLER_GET_NEXT_BROKER_ID: _cluster_of_broker,
    Code.CONTROLLER_APPLY_BROKER_ID: _cluster_of_broker,
    # These name no cluster, or need not.
    **{
        code: of_cluster(UPDATE)
        for code in (
            Code.CONTROLLER_ALTER_SYNC_STATE_SET,
            Code.CLEAN_BROKER_DATA,
            Code.UPDATE_CONTROLLER_CONFIG,
            Code.AUTH_CREATE_USER,
            Code.AUTH_UPDATE_USER,
            Code.AUTH_DELETE_USER,
            Code.AUTH_CREATE_ACL,
            Code.AUTH_UPDATE_ACL,
            Code.AUTH_DELETE_ACL,
        )
    },
    **{
        code: of_cluster(GET)
        for code in (
            Code.CONTROLLER_GET_REPLICA_INFO,
            Code.CONTROLLER_GET_METADATA_INFO,
            Code.CONTROLLER_GET_SYNC_STATE_DATA,
            Code.GET_CONTROLLER_CONFIG,
            Code.AUTH_GET_USER,
            Code.AUTH_LIST_USER,
            Code.AUTH_GET_ACL,
            Code.AUTH_LIST_ACL,
        )
    },
}
