"""The lab's report page in a real browser."""

import unittest

from lab import page

from . import browser
from .test_report import report


class Page(browser.PageTest):
    @classmethod
    def html(cls) -> str:
        return page.render([report(), report(2, "io_uring")], [("R99", "it <broke>")], quick=True)

    def test_pictures_are_seen(self) -> None:
        sizes = self.browser.run("return [...document.images].map(image => [image.complete, image.naturalWidth])")
        # the comparisons of both cases, then a picture of each
        self.assertEqual(len(sizes), 3)
        for complete, width in sizes:
            self.assertTrue(complete)
            self.assertGreater(width, 500)

    def test_what_is_told(self) -> None:
        text = self.browser.run("return document.body.innerText")
        for words in ("R99 could not be measured: it <broke>", "A quick session", "slower, as expected", "a reason"):
            self.assertIn(words, text)
        rows = self.browser.run("return document.querySelector('table').rows.length")
        self.assertEqual(rows, 2)

    def test_fits_narrow_and_wide_windows(self) -> None:
        self.check_widths()
