"""A headless browser without network, and a base of all tests of pages."""

from __future__ import annotations

import os
import shutil
import tempfile
import unittest
from pathlib import Path
from typing import Any

CHROMIUM = ("chromium", "chromedriver")

SETTINGS = (
    "--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1400,1200",
    # its sandbox needs namespaces, which containers seldom allow; all pages are ours
    "--no-sandbox",
    # looking up a name is an error
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


def missing() -> str | None:
    """Returns why there is no browser here, or None."""
    for program in CHROMIUM:
        if not shutil.which(program):
            return f"{program} is not installed (servers/packages, packages_ci)"
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "python3-selenium is not installed (servers/packages, packages_ci)"
    return None


class Browser:
    def __init__(self) -> None:
        if reason := missing():
            raise unittest.SkipTest(reason)
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        # an ordinary user may have no writable home
        self._home = tempfile.TemporaryDirectory(prefix="browser.")
        options = webdriver.ChromeOptions()
        options.binary_location = str(shutil.which("chromium"))
        for setting in (*SETTINGS, f"--user-data-dir={self._home.name}/profile"):
            options.add_argument(setting)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        service = Service(str(shutil.which("chromedriver")), env={**os.environ, "HOME": self._home.name}, log_path=os.devnull)
        self.driver = webdriver.Chrome(service=service, options=options)
        self.driver.set_script_timeout(120)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.driver.quit()
        self._home.cleanup()

    def open(self, path: Path) -> None:
        self.driver.get(path.absolute().as_uri())

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def run_async(self, script: str, *arguments: Any) -> Any:
        """Runs a script that passes its result to done()."""
        return self.driver.execute_async_script(f"const done = arguments[arguments.length - 1];\n{script}", *arguments)

    def errors(self) -> list[str]:
        """Returns the errors of the console."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def fetched(self) -> list[str]:
        """Returns the addresses that the page fetched besides itself."""
        return [url for url in self.run("return performance.getEntriesByType('resource').map(entry => entry.name)") if not url.startswith("data:")]


class PageTest(unittest.TestCase):
    """Tests of pages in a browser and a directory that all tests of a class share.  A page that says
    an error, or wants anything besides itself, fails the test that opened it."""

    browser: Browser
    directory: Path

    @classmethod
    def html(cls) -> str:
        """Returns the page that each test begins with; empty: none."""
        return ""

    @classmethod
    def setUpClass(cls) -> None:
        cls.browser = cls.enterClassContext(Browser())
        cls.directory = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        (cls.directory / "page.html").write_text(cls.html())

    def setUp(self) -> None:
        self.browser.open(self.directory / "page.html")

    def tearDown(self) -> None:
        self.assertEqual(self.browser.errors(), [])
        self.assertEqual(self.browser.fetched(), [])

    def check_widths(self) -> None:
        """Fails if a narrow or a wide window cannot show the page without scrolling it sideways."""
        for width in (500, 1400):
            with self.subTest(width=width):
                self.browser.driver.set_window_size(width, 900)
                wanted, given = self.browser.run("return [document.documentElement.scrollWidth, document.documentElement.clientWidth]")
                self.assertLessEqual(wanted, given)
