"""A real Chromium for tests."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from selenium import webdriver
from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    StaleElementReferenceException,
)
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from tests.waiting import wait_until

ARTIFACTS: Final = Path(__file__).parents[2] / "artifacts" / "console"
LAPTOP: Final = (1366, 860)
PHONE: Final = (390, 844)

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
_DRIVERS: Final = ("chromedriver",)
_PASSING: Final = (
    StaleElementReferenceException,
    ElementNotInteractableException,
    ElementClickInterceptedException,
)


def missing() -> str | None:
    """What a browser test lacks on this machine; None when it can run."""
    if not any(map(shutil.which, _NAMES)):
        return "chromium is not installed (apt-get install chromium chromium-driver)"
    if not any(map(shutil.which, _DRIVERS)):
        return "chromedriver is not installed (apt-get install chromium-driver)"
    return None


@contextmanager
def chromium(*, size: tuple[int, int] = LAPTOP, language: str = "en") -> Iterator["Browser"]:
    options = webdriver.ChromeOptions()
    options.binary_location = next(filter(None, map(shutil.which, _NAMES)))
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        f"--lang={language}",
        f"--window-size={size[0]},{size[1]}",
    ):
        options.add_argument(argument)
    options.add_experimental_option("prefs", {"intl.accept_languages": language})
    downloads = tempfile.TemporaryDirectory(prefix="rocketq-downloads-")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(shutil.which(_DRIVERS[0]))
    driver = webdriver.Chrome(options=options, service=service)
    try:
        yield Browser(driver, Path(downloads.name))
    finally:
        driver.quit()
        downloads.cleanup()


class Browser:
    """What tests do in it. Everything waits for what it needs."""

    def __init__(self, driver: webdriver.Chrome, downloads: Path) -> None:
        self.driver = driver
        self._downloads = downloads
        where = {"behavior": "allow", "downloadPath": str(downloads)}
        driver.execute_cdp_cmd("Browser.setDownloadBehavior", where)
        self.resize(LAPTOP)

    def resize(self, size: tuple[int, int], *, is_phone: bool = False) -> None:
        """The window without any frame around it."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {
                "width": size[0],
                "height": size[1],
                "deviceScaleFactor": 1,
                "mobile": is_phone,
            },
        )

    def open(self, url: str) -> None:
        self.driver.get(url)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        """The first that can be seen."""

        def found() -> WebElement | None:
            try:
                return next((each for each in self.all(selector) if each.is_displayed()), None)
            except StaleElementReferenceException:
                return None

        element = wait_until(found, f"{selector} at {self.driver.current_url}")
        assert element is not None
        return element

    def text(self, selector: str) -> str:
        """All that the elements say, a line each."""
        try:
            return "\n".join(each.text for each in self.all(selector))
        except StaleElementReferenceException:
            return ""

    def wait_for(self, text: str, selector: str = "body") -> None:
        wait_until(lambda: text in self.text(selector), f"{text!r} in {selector}: {self.where}")

    def wait_for_none(self, selector: str) -> None:
        def gone() -> bool:
            try:
                return not any(each.is_displayed() for each in self.all(selector))
            except StaleElementReferenceException:
                return False

        wait_until(gone, f"no {selector}: {self.where}")

    @property
    def where(self) -> str:
        return str(self.driver.current_url)

    def click(self, selector: str) -> None:
        """Pages are moved by what arrives, so a click may have to be tried again."""

        def clicked() -> bool:
            try:
                self.one(selector).click()
            except _PASSING:
                return False
            return True

        wait_until(clicked, f"a click on {selector}")

    def type(self, selector: str, text: str) -> None:
        """Replace what a field holds."""

        def typed() -> bool:
            try:
                field = self.one(f"{selector} input, {selector} textarea")
                field.send_keys(Keys.CONTROL, "a")
                field.send_keys(text or Keys.DELETE)
            except _PASSING:  # a dialog that is still on its way
                return False
            return True

        wait_until(typed, f"typing into {selector}")

    def enter(self, selector: str) -> None:
        self.one(f"{selector} input").send_keys(Keys.ENTER)

    def rows(self, table: str) -> list[list[str]]:
        """The cells of a table that can be seen."""
        script = """
            return [...document.querySelectorAll(arguments[0] + ' tbody tr')].map(
              row => [...row.querySelectorAll('td')].map(cell => cell.innerText.trim()))
        """
        found: list[list[str]] = self.driver.execute_script(script, table)
        return found

    def downloaded(self, name: str) -> str:
        """What a file holds that a click has brought; it is gone afterwards."""
        path = self._downloads / name
        # Chromium gives a file its name when it is complete.
        wait_until(path.exists, f"{name} among {[each.name for each in path.parent.iterdir()]}")
        text = path.read_text()
        path.unlink()
        return text

    def run(self, script: str) -> object:
        return self.driver.execute_script(script)

    def problems(self) -> list[str]:
        """What the browser complained about since the last time."""
        return [
            each["message"]
            for each in self.driver.get_log("browser")  # type: ignore[no-untyped-call]
            if each["level"] in ("SEVERE", "WARNING") and "favicon" not in each["message"]
        ]

    def picture(self, path: Path, *, whole: bool = False) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if whole:
            height = int(str(self.run("return document.documentElement.scrollHeight")))
            width = int(str(self.run("return window.innerWidth")))
            self.resize((width, height))
        self.driver.save_screenshot(str(path))
