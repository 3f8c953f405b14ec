"""A web application that sends and consumes.

pip install fastapi uvicorn
rocketq up & uvicorn --app-dir examples fastapi_app:app
curl -X POST localhost:8000/orders -H 'content-type: application/json' -d '{"id": 42}'
curl localhost:8000/billed
"""

import asyncio
import contextlib

from fastapi import FastAPI
from pydantic import BaseModel

from rocketq.aio import Template


class Order(BaseModel):
    id: int
    total: float = 0.0


rocketmq = Template("shop")  # the NameServer comes from NAMESRV_ADDR, else it is on this host
app = FastAPI(lifespan=rocketmq.lifespan)
billed: list[int] = []
billed_something = asyncio.Event()


@app.post("/orders")
async def place_order(order: Order) -> dict[str, str]:
    receipt = await rocketmq.send("web-orders:placed", order, keys=str(order.id))
    return {"message_id": receipt.msg_id}


@app.get("/billed")
async def list_billed() -> list[int]:
    with contextlib.suppress(TimeoutError):  # the first message also makes the topic
        await asyncio.wait_for(billed_something.wait(), 2)
    return billed


@rocketmq.listener(topic="web-orders", group="web-billing", tag="placed", consume_from="first")
async def bill(order: Order) -> None:
    billed.append(order.id)
    billed_something.set()
