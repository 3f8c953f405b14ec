"""Pop: messages are taken, hidden for a time, and come again unless acknowledged."""

from rocketq.broker.pop.held_pops import HeldPops
from rocketq.broker.pop.merge_buffer import MergeBuffer
from rocketq.broker.pop.ordered_queues import OrderedQueues
from rocketq.broker.pop.popping import PopAnswer, Popping
from rocketq.broker.pop.receipt import Receipt
from rocketq.broker.pop.revival import Revival
from rocketq.broker.pop.revive_log import ReviveLog

__all__ = [
    "HeldPops",
    "MergeBuffer",
    "OrderedQueues",
    "PopAnswer",
    "Popping",
    "Receipt",
    "Revival",
    "ReviveLog",
]
