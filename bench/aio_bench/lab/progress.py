"""The progress of a long run."""

from rich.console import Console
from rich.status import Status
from rich.text import Text


class Progress(Status):
    """The current step, on a terminal only, and lines that stay."""

    def __init__(self, console: Console) -> None:
        super().__init__("", console=console)

    def running(self, text: str) -> None:
        self.update(Text(text))

    def note(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)
