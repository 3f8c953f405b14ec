"""What is left of a topic that is deleted while its last messages are still to be counted."""

from pathlib import Path

from rocketq.remoting import Command, RequestCode, ResponseCode
from rocketq.remoting.bodies.route import KVTable
from rocketq.remoting.headers import DeleteTopicInBroker
from rocketq.remoting.headers.admin import ViewBrokerStatsData
from tests.broker.harness import running_broker
from tests.waiting import eventually


async def test_messages_counted_after_their_topic_are_in_the_total_alone(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:

        async def put_total() -> int:
            reply = await broker.call(Command.request(RequestCode.GET_BROKER_RUNTIME_INFO))
            return int(KVTable.decode(reply.body).table["msgPutTotalTodayNow"])

        for _ in range(3):
            assert (await broker.send("orders")).code == ResponseCode.SUCCESS
        deleted = await broker.call(Command.request(DeleteTopicInBroker(topic="orders")))
        assert deleted.code == ResponseCode.SUCCESS

        async def are_counted() -> bool:
            return await put_total() == 3

        await eventually(are_counted, "all messages to be counted")
        asked = ViewBrokerStatsData(stats_name="TOPIC_PUT_NUMS", stats_key="orders")
        assert (await broker.call(Command.request(asked))).code == ResponseCode.SYSTEM_ERROR
