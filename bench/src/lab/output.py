"""The files of a session in one directory: results, pictures and a page."""

from pathlib import Path

from . import page, picture, project
from .results import Report


class Output:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def own(self, *paths: Path) -> None:
        """Gives files in the checkout to the checkout's owner."""
        if self.directory.is_relative_to(project.ROOT):
            project.give_to_owner(self.directory.parent, self.directory, *paths)

    def keep(self, report: Report) -> list[Path]:
        """Writes CASE.jsonl, CASE.png and CASE.svg."""
        self.directory.mkdir(parents=True, exist_ok=True)
        paths = [self.directory / f"{report.case.name}.{suffix}" for suffix in ("jsonl", "png", "svg")]
        paths[0].write_text(report.as_json_lines())
        picture.draw(report, *paths[1:])
        self.own(*paths)
        return paths

    def write_page(self, reports: list[Report], failures: list[tuple[str, str]], quick: bool) -> Path:
        """Writes report.html with all reports."""
        path = self.directory / "report.html"
        self.directory.mkdir(parents=True, exist_ok=True)
        path.write_text(page.render(reports, failures, quick))
        self.own(path)
        return path
