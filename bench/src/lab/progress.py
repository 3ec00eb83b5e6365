"""Progress of a long run: a bar on a terminal, a few lines elsewhere."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.table import Column


class Progress:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = RichProgress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis")),
            BarColumn(bar_width=None),
            TextColumn("{task.completed:.0f} of {task.total:.0f} runs"), TimeRemainingColumn(),
            console=console, transient=True, expand=True, disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=0)

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def phase(self, text: str) -> None:
        """Shows a phase of unknown length."""
        if self._console.is_terminal:
            self.running(text)
        else:
            self.note(text)

    def expect(self, steps: int) -> None:
        self._bar.reset(self._task, total=steps)

    def expect_more(self, steps: int) -> None:
        """Adds steps, or removes some if negative."""
        self._bar.update(self._task, total=(self._bar.tasks[0].total or 0) + steps)

    def running(self, text: str) -> None:
        """Shows the current step, on a terminal only."""
        self._bar.update(self._task, description=text)

    def advance(self) -> None:
        self._bar.advance(self._task)

    def note(self, text: str) -> None:
        """Writes a line that stays on the terminal."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)
