"""Ask over a topic and get the answer back.

python examples/request_reply.py [NAMESRV]
"""

import asyncio
import sys

from rocketq.aio import Message, MessageExt, Producer, PushConsumer, reply_to, run

NAMESRV = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
TOPIC = "prices"


async def main() -> None:
    async with Producer("price-service", namesrv=NAMESRV) as service:

        async def on_question(question: MessageExt) -> None:
            price = len(question.body) * 7
            await service.send(reply_to(question, str(price).encode()))

        async with (
            PushConsumer(
                "price-service",
                namesrv=NAMESRV,
                topics=TOPIC,
                listener=on_question,
                consume_from="first",
            ),
            Producer("shop", namesrv=NAMESRV) as shop,
        ):
            products = ["pen", "paper", "lamp"]
            answers = await asyncio.gather(
                *(
                    shop.request(Message(TOPIC, product.encode()), timeout_s=30)
                    for product in products
                )
            )
            for product, answer in zip(products, answers, strict=True):
                print(f"a {product} costs {answer.body.decode()}")


run(main())
