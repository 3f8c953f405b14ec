"""Try every feature through the SDK, against any broker of the protocol.

    python -m peers.sdk NAMESRV [FEATURE ...]

One line of JSON a feature, as Features.java: {"feature":"delay","ok":true,"ms":1042,"detail":""}
"""

import json
import sys
import time
import traceback

from peers.sdk import consuming, later, looking, sending
from peers.sdk.trial import Feature, Trial
from rocketq.aio import run

FEATURES: dict[str, Feature] = (
    sending.FEATURES | consuming.FEATURES | looking.FEATURES | later.FEATURES
)


async def attempt(name: str, namesrv: str) -> bool:
    began, detail = time.monotonic(), ""
    try:
        async with Trial(namesrv) as trial:
            await FEATURES[name](trial)
    except Exception as failure:  # whatever it is, the next feature is tried
        place = traceback.extract_tb(failure.__traceback__)
        ours = [frame for frame in place if "/peers/" in frame.filename] or place
        detail = f"{type(failure).__name__}: {failure} (line {ours[-1].lineno})"
    result = {"feature": name, "ok": not detail, "ms": int((time.monotonic() - began) * 1000)}
    print(json.dumps(result | {"detail": detail}), flush=True)
    return not detail


async def main() -> bool:
    namesrv, *names = sys.argv[1:]
    return all([await attempt(name, namesrv) for name in names or FEATURES])


if __name__ == "__main__":
    sys.exit(0 if run(main()) else 1)
