"""What bench/ceiling and bench/growth have in common: both ask servers and io_methods
one after another, and keep what they find as JSON lines and as a picture."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from . import io_uring, project
from .arguments import STOCK
from .lab_arguments import server_name
from .progress import Progress
from .servers import Cluster


def add_arguments(parser: argparse.ArgumentParser, name: str, methods: list[str]) -> None:
    parser.add_argument("--server", action="append", type=server_name, help=f"as of bench/lab; default {' and '.join(STOCK)}")
    parser.add_argument("--method", action="append", help=f"io_method; default {', '.join(methods)}")
    parser.add_argument("--output", type=Path, default=project.ROOT / "build" / name, metavar="DIR")
    parser.add_argument("--work", type=Path, default=Path("/var/tmp"), metavar="DIR", help="its file system is measured")


def usable(cluster: Cluster, methods: list[str], progress: Progress) -> Iterator[str]:
    """Those io_methods that can be used here; what is skipped is noted."""
    for method in methods:
        reason = io_uring.why_not(cluster) if method == "io_uring" else None
        if reason:
            progress.note(f"{method} skipped on {cluster.server}: {reason}")
        else:
            yield method


def keep(
    directory: Path, name: str, provenance: dict[str, Any], lines: Iterable[dict[str, Any]], draw: Callable[[Path, Path], None]
) -> list[Path]:
    """Writes DIRECTORY/NAME.jsonl, .png and .svg; the two pictures are drawn by a function."""
    output = directory.absolute()
    output.mkdir(parents=True, exist_ok=True)
    results, *pictures = paths = [output / f"{name}.{suffix}" for suffix in ("jsonl", "png", "svg")]
    first = {"line": "provenance", "project_commit": project.commit(), "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"), **provenance}
    results.write_text("".join(json.dumps(line) + "\n" for line in [first, *lines]))
    draw(*pictures)
    if output.is_relative_to(project.ROOT):
        project.give_to_owner(output.parent, output, *paths)
    return paths


def tell(console: Console, paths: list[Path]) -> None:
    for path in paths:
        console.print(str(path), soft_wrap=True, markup=False)
