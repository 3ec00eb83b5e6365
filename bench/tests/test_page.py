"""The lab's report page in a real browser."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from lab import page

from . import browser
from .test_report import report


class Page(unittest.TestCase):
    browser: browser.Browser
    path: Path

    @classmethod
    def setUpClass(cls) -> None:
        cls.browser = cls.enterClassContext(browser.Browser())
        directory = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.path = Path(directory, "report.html")
        cls.path.write_text(page.render([report(), report(2, "io_uring")], [("R99", "it <broke>")], quick=True))

    def setUp(self) -> None:
        self.browser.open(self.path)

    def test_needs_nothing_else(self) -> None:
        self.assertEqual(self.browser.errors(), [])
        self.assertEqual(self.browser.fetched(), [])

    def test_pictures_are_seen(self) -> None:
        sizes = self.browser.run("return [...document.images].map(image => [image.complete, image.naturalWidth])")
        self.assertEqual(len(sizes), 2)
        for complete, width in sizes:
            self.assertTrue(complete)
            self.assertGreater(width, 500)

    def test_what_is_told(self) -> None:
        text = self.browser.run("return document.body.innerText")
        for words in ("R99 could not be measured: it <broke>", "A quick session", "slower, as expected", "a reason"):
            self.assertIn(words, text)
        rows = self.browser.run("return document.querySelector('table').rows.length")
        self.assertEqual(rows, 1 + 3 + 2)

    def test_fits_narrow_and_wide_windows(self) -> None:
        for width in (500, 1400):
            with self.subTest(width=width):
                self.browser.driver.set_window_size(width, 900)
                wanted, given = self.browser.run("return [document.documentElement.scrollWidth, document.documentElement.clientWidth]")
                self.assertLessEqual(wanted, given)


if __name__ == "__main__":
    unittest.main()
