"""The pictures of docs/console.md, taken anew: python -m tests.console.pictures

Needs Chromium; Pillow, where it is installed, makes the files a third of the size.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from rocketq.admin import connected, groups
from tests.cli.programs import Server, serving
from tests.console.browser import LAPTOP, PHONE, Browser, chromium
from tests.console.sample import Shop, shop

FOLDER: Final = Path(__file__).parents[2] / "docs" / "images" / "console"
SIZE: Final = (1280, 800)
# So long a chart looks like one.
WARM_UP_S: Final = float(os.environ.get("PICTURES_WARM_UP_S", "90"))


@contextmanager
def cluster() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="rocketq-pictures-") as folder:
        where = ("--namesrv-port", "0", "--broker-port", "0", "--console-port", "0")
        with serving("up", "--console", "--dir", f"{folder}/data", *where) as server:
            yield server


async def _client_of(namesrv: str, group: str) -> str:
    async with connected(namesrv) as api:
        connection = await groups.consumer_connection(api, group)
        return connection.connection_set[0].client_id


def pages(server: Server, goods: Shop) -> dict[str, str]:
    client = asyncio.run(_client_of(server.facts["namesrv"], "billing"))
    return {
        "overview": "/",
        "cluster": "/cluster",
        "broker": f"/broker?address={server.facts['broker']}",
        "topics": "/topics",
        "topic": "/topic?name=orders",
        "groups": "/groups",
        "group": "/group?name=warehouse",
        "client": f"/client?group=billing&id={quote(client)}",
        "producers": "/producers",
        "messages": "/messages?topic=orders",
        "message": f"/message?topic=orders&id={goods.ids[1]}",
        "dead-letters": "/dead-letters?group=labels",
        "delayed": "/waiting",
        "spark": "/spark",
        "users": "/users",
        "settings": "/settings",
    }


def take(browser: Browser, url: str, name: str) -> None:
    browser.open(url)
    browser.one(".r-card")
    time.sleep(2.5)  # charts and tables have arrived
    path = FOLDER / f"{name}.png"
    browser.picture(path)
    with suppress(ImportError):
        from PIL import Image

        Image.open(path).convert("RGB").quantize(128).save(path, optimize=True)


def main() -> None:
    from rocketq import Producer
    from tests.console.sample import order

    with cluster() as server, shop(server.facts["namesrv"]) as goods:
        with Producer("shop", namesrv=server.facts["namesrv"]) as producer:
            end = time.monotonic() + WARM_UP_S
            number = 0
            while time.monotonic() < end:
                producer.send(order(number))
                number += 1
                time.sleep(0.02 + 0.015 * (number // 400 % 3))
        url = server.facts["console"]
        with chromium(size=LAPTOP) as browser:
            browser.resize(SIZE)
            browser.open(f"{url}/healthz")
            browser.run("document.cookie = 'rocketq_theme=light; path=/'")
            for name, path in pages(server, goods).items():
                take(browser, url + path, name)
            browser.run("document.cookie = 'rocketq_theme=dark; path=/'")
            take(browser, url, "dark")
            browser.run("document.cookie = 'rocketq_lang=zh; path=/'")
            take(browser, f"{url}/groups", "chinese")
            browser.run("document.cookie = 'rocketq_lang=en; path=/'")
            browser.run("document.cookie = 'rocketq_theme=light; path=/'")
            browser.resize(PHONE, is_phone=True)
            take(browser, url, "phone")
    for picture in sorted(FOLDER.glob("*.png")):
        print(f"{picture.stat().st_size:>8,}  {picture.name}")


if __name__ == "__main__":
    main()
