"""What users and rights cost: a signed send, looked at by the guard of a broker.

    python -m benchmarks.access [--rounds 20]

Frames as the wire brings them are split and handed to what stands before the broker's handlers,
with the guard and without, by turns. The difference is what a signed send costs more; signing
itself is the client's. Figures are processor time, and the least of all rounds counts: whatever
else the machine does only adds to it.
"""

import argparse
import tempfile
import time
from pathlib import Path

from benchmarks.frames import frame
from rocketq.broker.access import BROKER_RULES
from rocketq.common.access import Acl, Entry, PolicyType, User, UserType
from rocketq.message.ids import UniqueIds
from rocketq.message.properties.codec import encode_properties
from rocketq.remoting import Command
from rocketq.remoting.access import RequestSigner
from rocketq.remoting.access.directory import AccessDirectory
from rocketq.remoting.access.guard import AccessGuard
from rocketq.remoting.headers import SendMessageV2
from rocketq.remoting.wire.frame import FrameSplitter

COUNT = 5_000
PEER = "10.0.0.7:50000"
BODY = 128
MOST_US = 3.0


def signed_sends(count: int) -> list[bytes]:
    signer = RequestSigner("shop", "a-secret-of-some-length")
    ids = UniqueIds()
    frames = []
    for number in range(count):
        properties = {"UNIQ_KEY": ids.next(), "WAIT": "true"}
        header = SendMessageV2(
            producer_group="producers",
            topic="orders",
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=number % 4,
            sys_flag=0,
            born_timestamp=1_700_000_000_000 + number,
            flag=0,
            properties=encode_properties(properties).decode(),
            reconsume_times=0,
            unit_mode=False,
            batch=False,
        )
        command = Command.request(header, bytes(BODY))
        signer.before_request("", command)
        frames.append(frame(command))
    return frames


def guard(folder: Path) -> AccessGuard:
    directory = AccessDirectory(folder)
    # Not saved: that would want a loop, and nobody reads it.
    directory._users["shop"] = User("shop", "a-secret-of-some-length", UserType.NORMAL)
    entries = [Entry.parse("Topic:orders", ["Pub"], "Allow", ["10.0.0.0/8"])]
    directory._acls["shop"] = Acl().merged(PolicyType.CUSTOM, entries)
    return AccessGuard(
        directory, BROKER_RULES, cluster="DefaultCluster", authenticates=True, authorizes=True
    )


def seconds(frames: list[bytes], looks: AccessGuard | None) -> float:
    splitter = FrameSplitter()
    began = time.process_time()
    for one in frames:
        for command in splitter.feed(one):
            if looks is not None:
                looks.before_request(PEER, command)
    return time.process_time() - began


def measured_us(rounds: int) -> tuple[float, float]:
    """A frame without the guard, and what the guard adds."""
    frames = signed_sends(COUNT)
    with tempfile.TemporaryDirectory() as folder:
        looks = guard(Path(folder))
        turns = [(seconds(frames, None), seconds(frames, looks)) for _ in range(rounds)]
    plain = min(turn[0] for turn in turns)
    guarded = min(turn[1] for turn in turns)
    return plain / COUNT * 1e6, (guarded - plain) / COUNT * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    plain, more = measured_us(parser.parse_args().rounds)
    print(f"a frame {plain:.2f} us, with its signature and rights checked {more:.2f} us more")


if __name__ == "__main__":
    main()
