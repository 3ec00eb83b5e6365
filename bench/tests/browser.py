"""A real browser without a window and without network."""

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
    # containers seldom let it make the namespaces of its sandbox, and all that it
    # is shown is ours
    "--no-sandbox",
    # a name that is looked up is an error
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


def missing() -> str | None:
    """Why there is no browser here."""
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

        # an ordinary user may have no home that can be written
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
        """A script that gives its result to "done"."""
        return self.driver.execute_async_script(f"const done = arguments[arguments.length - 1];\n{script}", *arguments)

    def errors(self) -> list[str]:
        """Of the console."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def fetched(self) -> list[str]:
        """What the page wanted besides itself."""
        return [url for url in self.run("return performance.getEntriesByType('resource').map(entry => entry.name)") if not url.startswith("data:")]
