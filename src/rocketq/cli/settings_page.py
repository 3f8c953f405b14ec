"""docs/settings.md, made from the code: `python -m rocketq.cli.settings_page`.

What a broker's keys mean stands in a table of its own; those of the other servers are here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rocketq.broker.settings import page as broker_page
from rocketq.common.config import Setting, settings, to_properties
from rocketq.common.metrics.settings import MetricsSettings
from rocketq.controller import config as controller
from rocketq.namesrv import config as namesrv
from rocketq.proxy import config as proxy
from rocketq.remoting.access.settings import AccessSettings
from rocketq.remoting.link.settings import EntranceSettings
from rocketq.remoting.tls.settings import TlsSettings

_SHARED: Final = (AccessSettings, TlsSettings, EntranceSettings, MetricsSettings)
_SHARED_KEYS: Final = frozenset(key for part in _SHARED for key in settings(part))
_FOUND_OUT: Final = {
    "rocketmqHome": "`$ROCKETMQ_HOME`",
    "namesrvAddr": "`$NAMESRV_ADDR`",
    "proxyName": "host name",
    "kvConfigPath": "`~/namesrv/kvConfig.json`",
    "controllerStorePath": "`~/controller`",
}


@dataclass(frozen=True, slots=True)
class Server:
    """The settings of one kind of server."""

    title: str
    introduction: str
    config: type
    meanings: Mapping[str, str]
    live: frozenset[str]
    ours: frozenset[str]
    ranges: Mapping[str, tuple[float, float]]

    @property
    def keys(self) -> dict[str, Setting]:
        """Those that are not shared with brokers, with what is known of each."""
        return {key: each for key, each in settings(self.config).items() if key not in _SHARED_KEYS}


NAMESRV: Final = Server(
    "NameServer",
    "In the file given with `-c`, as `--set key=value`, or changed with `updateNamesrvConfig`.",
    namesrv.NamesrvConfig,
    {
        "bindAddress": "The address it listens on.",
        "listenPort": "Its port; 0 takes a free one.",
        "rocketmqHome": "Where relative paths begin.",
        "kvConfigPath": "The file of what is kept by namespace and key.",
        "configStorePath": "Where changed settings are written.",
        "configBlackList": "Keys that nobody may change over the wire.",
        "scanNotActiveBrokerInterval": "How often it looks for brokers that have fallen silent.",
        "deleteTopicWithBrokerRegistration": (
            "Whether topics a broker no longer names when it registers are forgotten."
        ),
        "returnOrderTopicConfigToBroker": "Whether a broker is told of ordered topics.",
        "supportActingMaster": "Whether a slave stands for a master that is gone.",
        "notifyMinBrokerIdChanged": "Whether brokers are told who acts for a master.",
        "maxRegisteredBrokers": "Brokers it takes in.",
        "maxBrokersPerConnection": "Brokers one connection may bring.",
        "maxRegisteredTopics": "Topics it takes in.",
        "maxRouteEntries": "Queues of topics on brokers it takes in.",
        "maxKvConfigBytes": "How large what is kept by key may be in all.",
        "orderMessageEnable": "Whether routes name the queues of ordered topics.",
        "enableAllTopicList": "Whether somebody may ask for all topics.",
        "enableTopicList": "Whether somebody may ask for topics of a cluster.",
        "needWaitForService": "Whether it answers for routes only some time after the start.",
        "waitSecondsForService": "How long after the start.",
        "serverChannelMaxIdleTimeSeconds": "When a silent connection is closed; 0 is never.",
        "serverSocketBacklog": "Connections that may wait to be accepted.",
    },
    frozenset(
        "scanNotActiveBrokerInterval deleteTopicWithBrokerRegistration "
        "returnOrderTopicConfigToBroker supportActingMaster notifyMinBrokerIdChanged "
        "maxRegisteredBrokers maxBrokersPerConnection maxRegisteredTopics maxRouteEntries "
        "maxKvConfigBytes orderMessageEnable enableAllTopicList enableTopicList "
        "needWaitForService waitSecondsForService".split()
    ),
    frozenset(
        "maxRegisteredBrokers maxBrokersPerConnection maxRegisteredTopics maxRouteEntries "
        "maxKvConfigBytes".split()
    ),
    namesrv.RANGES,
)

CONTROLLER: Final = Server(
    "Controller",
    "In the file given with `-c`, as `--set key=value`, or changed with `updateControllerConfig`.",
    controller.ControllerConfig,
    {
        "bindAddress": "The address it listens on.",
        "listenPort": "Its port; 0 takes a free one.",
        "advertisedHost": "What brokers are told, where that is not the host's own address.",
        "rocketmqHome": "Where relative paths begin.",
        "configStorePath": "Where changed settings are written.",
        "configBlackList": "Keys that nobody may change over the wire.",
        "controllerDLegerGroup": "The name of this group of controllers.",
        "controllerDLegerPeers": "All of them, `n0-host:port;n1-host:port`.",
        "controllerDLegerSelfId": "Which of them this one is.",
        "controllerStorePath": "The folder of its state, where that is not in etcd.",
        "etcdEndpoints": "Where etcd is, `host:port,host:port`; what `--etcd` sets.",
        "etcdPrefix": "What its keys in etcd begin with.",
        "etcdLeaseSeconds": "How soon another controller leads when this one is gone.",
        "etcdUser": "The user in etcd.",
        "etcdPassword": "Its password.",
        "etcdCaFile": "Who may have signed etcd's certificate; a file turns TLS on.",
        "etcdCertFile": "The certificate that etcd is shown.",
        "etcdKeyFile": "Its key.",
        "enableElectUncleanMaster": (
            "Whether a broker that was not in sync may become master; loses messages."
        ),
        "notifyBrokerRoleChanged": "Whether brokers are told of a new master, or have to ask.",
        "scanNotActiveBrokerInterval": "How often it looks for brokers that have fallen silent.",
        "scanInactiveMasterInterval": "How often it looks for names without a master.",
    },
    controller.LIVE_KEYS,
    frozenset(key for key in settings(controller.ControllerConfig) if key.startswith("etcd"))
    | {"advertisedHost", "bindAddress"},
    controller.RANGES,
)

PROXY: Final = Server(
    "Proxy",
    "In the file given with `-c` or as `--set key=value`. A broker that serves gRPC itself has "
    "the defaults.",
    proxy.ProxyConfig,
    {
        "proxyClusterName": "The cluster its figures name.",
        "proxyName": "The name its figures have.",
        "grpcServerPort": "Its port; 0 takes a free one.",
        "bindAddress": "The address it listens on.",
        "namesrvAddr": "Where the NameServers are.",
        "rocketMQClusterName": "The cluster behind it.",
        "useEndpointPortFromRequest": "Whether routes name the port that the client asked at.",
        "maxMessageSize": "How large a message's body may be.",
        "enableMessageBodyEmptyCheck": "Whether an empty body is refused.",
        "maxUserPropertySize": "How large all properties of a message may be.",
        "userPropertyMaxNum": "How many properties a message may have.",
        "maxMessageGroupSize": "How long the name of a message group may be.",
        "maxDelayTimeMills": "How late a message may be delivered.",
        "maxTransactionRecoverySecond": "How late a transaction may be asked about first.",
        "enableTopicMessageTypeCheck": "Whether messages must be of their topic's type.",
        "defaultInvisibleTimeMills": "How long a received message is hidden, if nothing is said.",
        "minInvisibleTimeMillsForRecv": "How short that may be.",
        "maxInvisibleTimeMills": "How long that may be.",
        "grpcClientConsumerMinLongPollingTimeoutMillis": "How short a receive may wait.",
        "grpcClientConsumerMaxLongPollingTimeoutMillis": "How long a receive may wait.",
        "grpcClientConsumerLongPollingBatchSize": "Messages of one receive.",
        "enableProxyAutoRenew": "Whether messages stay hidden while their consumer lives.",
        "renewAheadTimeMillis": "How long before the end that is renewed.",
        "renewMaxTimeMillis": "How long it is renewed at most.",
        "maxRenewRetryTimes": "How often that is tried.",
        "invisibleTimeMillisWhenClear": "When messages of a consumer that is gone come again.",
        "grpcClientProducerMaxAttempts": "How often clients are told to try a send.",
        "grpcClientProducerBackoffInitialMillis": "How long they wait before the second.",
        "grpcClientProducerBackoffMaxMillis": "How long they wait at most.",
        "grpcClientProducerBackoffMultiplier": "How many times longer each time.",
        "channelExpiredTimeout": "When a client that says nothing is forgotten.",
        "grpcProxyRelayRequestTimeoutInSeconds": "Patience with a client that is asked something.",
        "transactionHeartbeatPeriodSecond": "How often brokers are told of producers.",
        "grpcMaxInboundMessageSize": "How large a request may be.",
        "grpcClientIdleTimeMills": "When a connection without calls is closed.",
        "grpcMaxConcurrentCallsPerConnection": "Calls of one connection at a time.",
        "maxClients": "Clients it takes in.",
        "maxWaitingReceives": "Receives that may wait for messages.",
    },
    frozenset(),
    frozenset({"bindAddress", "maxClients", "maxWaitingReceives"}),
    proxy.RANGES,
)

SERVERS: Final = (NAMESRV, CONTROLLER, PROXY)

_SHARED_TEXT: Final = """\
The keys of brokers' sections for access, TLS, connections, and metrics and health count here, too.
"""


def page() -> str:
    """The whole page."""
    return "".join([broker_page.page(), *(part for each in SERVERS for part in _server(each))])


def _server(server: Server) -> Iterator[str]:
    defaults = to_properties(server.config())
    yield f"\n## {server.title}\n\n{server.introduction}\n{_SHARED_TEXT}\n"
    yield "| key | default | may be | live | meaning |\n|---|---|---|---|---|\n"
    idle = []
    for key, setting in server.keys.items():
        if key not in server.meanings:
            idle.append(f"`{key}`")
            continue
        shown = _FOUND_OUT.get(key) or _relative(defaults.get(key, "")) or "none"
        is_live = "live" if key in server.live else ""
        ours = " *(rocketq's own)*" if key in server.ours else ""
        allowed = _allowed(setting, server.ranges)
        yield f"| `{key}` | {shown} | {allowed} | {is_live} | {server.meanings[key]}{ours} |\n"
    if idle:
        yield f"\nAccepted, and without effect here: {', '.join(idle)}.\n"


def _relative(value: str) -> str:
    """A path below the home directory, without saying whose."""
    home = str(Path.home())
    return f"`~{value.removeprefix(home)}`" if value.startswith(home + "/") else value


def _allowed(setting: Setting, ranges: Mapping[str, tuple[float, float]]) -> str:
    limits = ranges.get(setting.field)
    if limits is not None:
        return f"{int(limits[0])} to {int(limits[1])}"
    return "true, false" if setting.kind is bool else "text"


if __name__ == "__main__":
    print(page(), end="")
