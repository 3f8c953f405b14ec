"""A message that is delivered only if a database transaction commits.

The outcome is written to the database together with the order itself. When the broker does
not hear of it (here: on purpose), it asks, and the check finds it there.

    python examples/transaction.py [NAMESRV]
"""

import sqlite3
import sys
import tempfile
import threading
from pathlib import Path

from rocketq import (
    Message,
    MessageExt,
    PushConsumer,
    TransactionProducer,
    TransactionState,
)

NAMESRV = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
TOPIC = "orders-in-transaction"

folder = tempfile.TemporaryDirectory()
DATABASE = str(Path(folder.name) / "shop.db")


def database() -> sqlite3.Connection:
    connection = sqlite3.connect(DATABASE)
    connection.execute("create table if not exists orders (message_id text primary key, total int)")
    return connection


producer = TransactionProducer("shop", namesrv=NAMESRV)


@producer.on_execute
def place_order(message: Message, total: int) -> TransactionState:
    """Runs in the thread that sends, between the half message and its commit."""
    connection = database()
    try:
        with connection:
            connection.execute("insert into orders values (?, ?)", (message.unique_key, total))
            if total < 0:
                raise ValueError("nobody pays us for taking something")
    except ValueError as error:
        print(f"order refused: {error}")
        return TransactionState.ROLLBACK
    finally:
        connection.close()
    return TransactionState.COMMIT


@producer.on_check
def is_placed(message: MessageExt) -> TransactionState:
    """Asked by the broker when it did not hear how a transaction ended."""
    connection = database()
    try:
        found = connection.execute(
            "select 1 from orders where message_id = ?", (message.msg_id,)
        ).fetchone()
    finally:
        connection.close()
    return TransactionState.COMMIT if found else TransactionState.ROLLBACK


announced = threading.Event()


def on_order(message: MessageExt) -> None:
    print(f"announced: {message.body.decode()}")
    announced.set()


with producer:
    good = producer.send_in_transaction(Message(TOPIC, b"three books"), 42)
    bad = producer.send_in_transaction(Message(TOPIC, b"minus three books"), -42)
    print(f"first {good.state.name}, second {bad.state.name}")

    with PushConsumer(
        "billing", namesrv=NAMESRV, topics=TOPIC, listener=on_order, consume_from="first"
    ):
        announced.wait(timeout=30)

folder.cleanup()
