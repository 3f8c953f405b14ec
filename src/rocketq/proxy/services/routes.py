"""QueryRoute and QueryAssignment: where a topic is."""

from collections.abc import Iterator
from typing import Any

from rocketq.proxy.adapter import checks
from rocketq.proxy.adapter.queues import (
    MASTER_ID,
    accepted_types,
    broker_permission,
    permissions,
    readable_brokers,
    resource,
)
from rocketq.proxy.calls import Call, Rpcs
from rocketq.proxy.cluster import Cluster, Topic
from rocketq.proxy.config import ProxyConfig
from rocketq.proxy.protocol import messages as pb
from rocketq.proxy.refusal import OK, Refused


class RouteService:
    """Every broker is reached at the address that the client asked at: all calls pass here."""

    def __init__(self, config: ProxyConfig, cluster: Cluster) -> None:
        self._config = config
        self._cluster = cluster

    def add_to(self, rpcs: Rpcs) -> None:
        rpcs.unary("QueryRoute", self._route)
        rpcs.unary("QueryAssignment", self._assignment)

    async def _route(self, request: Any, call: Call) -> Any:
        topic = await self._cluster.topic(checks.topic_of(request.topic))
        endpoints = self._endpoints(request.endpoints)
        return pb.QueryRouteResponse(status=OK, message_queues=list(self._queues(topic, endpoints)))

    def _queues(self, topic: Topic, endpoints: Any) -> Iterator[Any]:
        types = accepted_types(topic.message_type)
        name = resource(topic.name)
        ids = {data.broker_name: data.broker_addrs for data in topic.route.broker_datas}
        for data in sorted(topic.route.queue_datas, key=lambda each: each.broker_name):
            addresses = ids.get(data.broker_name)
            if not addresses:
                continue
            # Slaves are shown where there is nothing else: not all clients leave them out.
            broker_id = MASTER_ID if MASTER_ID in addresses else min(addresses)
            broker = pb.Broker(name=data.broker_name, id=broker_id, endpoints=endpoints)
            for number, permission in enumerate(permissions(data)):
                yield pb.MessageQueue(
                    topic=name,
                    id=number,
                    permission=permission,
                    broker=broker,
                    accept_message_types=types,
                )

    async def _assignment(self, request: Any, call: Call) -> Any:
        name = checks.topic_of(request.topic)
        group_name = checks.group_of(request.group)
        topic = await self._cluster.topic(name)
        group = await self._cluster.group(group_name)
        endpoints = self._endpoints(request.endpoints)
        assignments = []
        for data in readable_brokers(topic.route):
            is_in_order = group is not None and group.consume_message_orderly
            # Any member pops from all queues of a broker; in order from each by itself.
            for queue_id in range(data.read_queue_nums) if is_in_order else (-1,):
                queue = pb.MessageQueue(
                    topic=resource(name),
                    id=queue_id,
                    permission=broker_permission(data.perm),
                    broker=pb.Broker(name=data.broker_name, id=MASTER_ID, endpoints=endpoints),
                )
                assignments.append(pb.Assignment(message_queue=queue))
        if not assignments:
            raise Refused(pb.FORBIDDEN, "no readable queue")
        return pb.QueryAssignmentResponse(status=OK, assignments=assignments)

    def _endpoints(self, asked: Any) -> Any:
        """Those the client asked at: it has reached us there."""
        if self._config.use_endpoint_port_from_request:
            return asked
        echoed = pb.Endpoints(scheme=asked.scheme)
        for address in asked.addresses:
            echoed.addresses.add(host=address.host, port=self._config.grpc_server_port)
        return echoed
