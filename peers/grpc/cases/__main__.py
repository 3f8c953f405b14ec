"""Try every case with a bare client, all at the same time, against whatever serves gRPC.

    python -m peers.grpc.cases KIND HOST:PORT NAMESRV [CASE ...]

KIND is that of peers/grpc/columns.py; where RocketMQ's proxy is known to answer otherwise than
ours, a case wants its answer there. One line of JSON a case, as everywhere in peers.
"""

import asyncio
import json
import sys
import time
import traceback

from peers.grpc.cases import clients, receives, rights, routes, sends, transactions, transport
from peers.grpc.cases.trial import Case, System, Trial
from rocketq.admin import connected

CASES: dict[str, Case] = (
    routes.CASES
    | clients.CASES
    | sends.CASES
    | receives.CASES
    | transactions.CASES
    | transport.CASES
)
# These are many, and others would notice.
LAST = "35-many-clients"
WITHIN_S = 280.0
ADMINISTRATOR = ("root", "secret-of-root")
# Against a system of their own, and only when they are named.
ALONE = rights.CASES


async def attempt(name: str, system: System) -> bool:
    began, detail = time.monotonic(), ""
    try:
        async with asyncio.timeout(WITHIN_S), Trial(system, name) as trial:
            await (CASES | ALONE)[name](trial)
    except Exception as failure:  # whatever it is, the others go on
        place = traceback.extract_tb(failure.__traceback__)
        ours = [
            frame
            for frame in place
            if "/cases/" in frame.filename and not frame.filename.endswith("trial.py")
        ] or place
        where = f"{ours[-1].name}, line {ours[-1].lineno}: {ours[-1].line}"
        detail = f"{type(failure).__name__}: {failure} ({where})"
    result = {"feature": name, "ok": not detail, "ms": int((time.monotonic() - began) * 1000)}
    print(json.dumps(result | {"detail": detail[:500]}), flush=True)
    return not detail


async def main() -> bool:
    kind, target, namesrv, *names = sys.argv[1:]
    wanted = names or list(CASES)
    # What requires a right is signed; who asks for none does not look.
    async with connected(namesrv, timeout_s=30.0, credentials=ADMINISTRATOR) as admin:
        system = System(kind, target, namesrv, admin)
        together = [attempt(name, system) for name in wanted if name != LAST]
        found = await asyncio.gather(*together)
        if LAST in wanted:
            found.append(await attempt(LAST, system))
    return all(found)


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(main()) else 1)
