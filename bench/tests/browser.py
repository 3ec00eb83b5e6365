"""A headless browser without network."""

import os
import shutil
import tempfile
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SETTINGS = (
    "--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1400,1200",
    # its sandbox needs namespaces, which containers seldom allow; all pages are ours
    "--no-sandbox",
    # looking up a name is an error
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


@contextmanager
def browser() -> Iterator[Any]:
    """Gives selenium's driver."""
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        chromium = None
    if not chromium or not chromedriver:
        raise unittest.SkipTest("there is no browser (servers/packages, packages_reading)")
    # an ordinary user may have no writable home
    with tempfile.TemporaryDirectory(prefix="browser.") as home:
        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        for setting in (*SETTINGS, f"--user-data-dir={home}/profile"):
            options.add_argument(setting)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = webdriver.Chrome(service=Service(chromedriver, env={**os.environ, "HOME": home}, log_path=os.devnull), options=options)
        try:
            driver.set_script_timeout(120)
            yield driver
        finally:
            driver.quit()
