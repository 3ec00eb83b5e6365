"""The progress of a long run."""

import rich.progress
from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Column


class Progress(rich.progress.Progress):
    """A bar on a terminal, a few lines elsewhere."""

    def __init__(self, console: Console) -> None:
        super().__init__(
            SpinnerColumn(), TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis")),
            BarColumn(bar_width=None), TextColumn("{task.completed:.0f} of {task.total:.0f} runs"), TimeRemainingColumn(),
            console=console, transient=True, expand=True, disable=not console.is_terminal,
        )
        self._runs = self.add_task("", total=0)

    def phase(self, text: str) -> None:
        """Shows a phase of unknown length."""
        if self.console.is_terminal:
            self.running(text)
        else:
            self.note(text)

    def expect(self, steps: int) -> None:
        self.reset(self._runs, total=steps)

    def expect_more(self, steps: int) -> None:
        """Adds steps, or removes some if negative."""
        self.update(self._runs, total=(self.tasks[0].total or 0) + steps)

    def running(self, text: str) -> None:
        """Shows the current step, on a terminal only."""
        self.update(self._runs, description=text)

    def done(self) -> None:
        self.advance(self._runs)

    def note(self, text: str) -> None:
        """Writes a line that stays on the terminal."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)
