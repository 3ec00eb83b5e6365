"""A headless browser without network."""

from __future__ import annotations

import os
import shutil
import tempfile
import unittest
from typing import Any

SETTINGS = (
    "--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1400,1200",
    # its sandbox needs namespaces, which containers seldom allow; all pages are ours
    "--no-sandbox",
    # looking up a name is an error
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


class Browser:
    def __init__(self) -> None:
        try:
            from selenium import webdriver
            from selenium.webdriver.chrome.service import Service
        except ImportError:
            raise unittest.SkipTest("python3-selenium is not installed (servers/packages, packages_ci)") from None
        for program in ("chromium", "chromedriver"):
            if not shutil.which(program):
                raise unittest.SkipTest(f"{program} is not installed (servers/packages, packages_ci)")
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

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def run_async(self, script: str, *arguments: Any) -> Any:
        """Runs a script that passes its result to done()."""
        return self.driver.execute_async_script(f"const done = arguments[arguments.length - 1];\n{script}", *arguments)
