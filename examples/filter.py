"""Consume only what is wanted: by tags, and by SQL on properties.

SQL needs a broker with enablePropertyFilter=true (the default of rocketq).

    python examples/filter.py [NAMESRV]
"""

import asyncio
import sys

from rocketq.aio import Message, MessageExt, Producer, PushConsumer, Sql, run

NAMESRV = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
TOPIC = "trades"


async def main() -> None:
    by_tag: list[str] = []
    by_sql: list[str] = []
    done = asyncio.Event()

    sellers = PushConsumer(
        "sellers",
        namesrv=NAMESRV,
        topics={TOPIC: "sell || cancel"},
        consume_from="first",
    )
    auditors = PushConsumer(
        "auditors",
        namesrv=NAMESRV,
        topics={TOPIC: Sql("amount > 100 and kind <> 'cancel'")},
        consume_from="first",
    )

    @sellers.listener
    async def on_sale(message: MessageExt) -> None:
        by_tag.append(message.body.decode())
        check_done()

    @auditors.listener
    async def on_large(message: MessageExt) -> None:
        by_sql.append(message.body.decode())
        check_done()

    def check_done() -> None:
        if len(by_tag) >= 2 and len(by_sql) >= 2:
            done.set()

    async with Producer("exchange", namesrv=NAMESRV) as producer:
        for kind, amount in [("buy", 10), ("sell", 200), ("cancel", 300), ("buy", 4000)]:
            await producer.send(
                Message(
                    TOPIC,
                    f"{kind} {amount}".encode(),
                    tags=kind,
                    properties={"amount": str(amount), "kind": kind},
                )
            )

    async with sellers, auditors:
        await asyncio.wait_for(done.wait(), 30)

    print(f"by tag: {sorted(by_tag)}")
    print(f"by SQL: {sorted(by_sql)}")


run(main())
