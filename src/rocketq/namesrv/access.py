"""What each request to a NameServer needs.

RocketMQ's NameServers check nothing: whoever reaches one may register a broker, and have all
messages of a topic sent there. Here a broker has to sign with a user that may change its
cluster, which its `innerClientAuthenticationCredentials` are.
"""

from collections.abc import Iterable
from typing import Final

from rocketq.common.access import Action, Need, ResourceType
from rocketq.message import names
from rocketq.remoting.access.needs import GET, PUB, SUB, UPDATE, of_cluster, topic_need
from rocketq.remoting.access.rules import Rules
from rocketq.remoting.codes import RequestCode as Code
from rocketq.remoting.wire.command import Command

_USES: Final = PUB | SUB | GET


def _route(request: Command) -> Iterable[Need]:
    """Whoever may do anything with a topic may ask where it is.

    Producers ask for the topic that new ones are made after, and so does everybody with a user.
    """
    topic = request.ext_fields.get("topic", "")
    if topic == names.AUTO_CREATE_TOPIC:
        return ()
    return (topic_need(topic, _USES, SUB | GET),)


def _cluster_of_broker(request: Command) -> Iterable[Need]:
    """A broker speaks for the cluster that it says to belong to."""
    name = request.ext_fields.get("clusterName", "")
    return (Need(ResourceType.CLUSTER, name, frozenset({Action.UPDATE})),)


NAMESRV_RULES: Final[Rules] = {
    Code.GET_ROUTEINFO_BY_TOPIC: _route,
    Code.REGISTER_BROKER: _cluster_of_broker,
    Code.UNREGISTER_BROKER: _cluster_of_broker,
    Code.BROKER_HEARTBEAT: _cluster_of_broker,
    Code.QUERY_DATA_VERSION: _cluster_of_broker,
    **{
        code: of_cluster(GET)
        for code in (
            Code.GET_BROKER_MEMBER_GROUP,
            Code.GET_BROKER_CLUSTER_INFO,
            Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
            Code.GET_TOPICS_BY_CLUSTER,
            Code.GET_SYSTEM_TOPIC_LIST_FROM_NS,
            Code.GET_UNIT_TOPIC_LIST,
            Code.GET_HAS_UNIT_SUB_TOPIC_LIST,
            Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
            Code.GET_KV_CONFIG,
            Code.GET_KVLIST_BY_NAMESPACE,
            Code.GET_NAMESRV_CONFIG,
            Code.AUTH_GET_USER,
            Code.AUTH_LIST_USER,
            Code.AUTH_GET_ACL,
            Code.AUTH_LIST_ACL,
        )
    },
    **{
        code: of_cluster(UPDATE)
        for code in (
            Code.REGISTER_TOPIC_IN_NAMESRV,
            Code.DELETE_TOPIC_IN_NAMESRV,
            Code.WIPE_WRITE_PERM_OF_BROKER,
            Code.ADD_WRITE_PERM_OF_BROKER,
            Code.PUT_KV_CONFIG,
            Code.DELETE_KV_CONFIG,
            Code.UPDATE_NAMESRV_CONFIG,
            Code.AUTH_CREATE_USER,
            Code.AUTH_UPDATE_USER,
            Code.AUTH_DELETE_USER,
            Code.AUTH_CREATE_ACL,
            Code.AUTH_UPDATE_ACL,
            Code.AUTH_DELETE_ACL,
        )
    },
}
