"""bench/timeline: draws traces.  The drawing libraries are imported after provide has made sure of them."""

import argparse
from pathlib import Path

from .. import project
from . import export, panels, trace

EPILOG = f"""\
A file has a line for each I/O, as JSON:
  psql -XAtc '{trace.QUERY}' >FILE
"""

#: the suffix of Chrome trace events, a file of which has one trace
EXPORT = ".json"


def _output(text: str) -> Path:
    path = Path(text)
    if path.suffix not in (".png", ".svg", EXPORT):
        raise argparse.ArgumentTypeError(f"{text}: must end in .png, .svg or {EXPORT}")
    return path


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench/timeline", description="Draws traces of I/Os, one above the other: time to the right, block number up, a bar an I/O.",
        epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("traces", nargs="+", metavar="TRACE", help="a file of rows of io_trace, or a connection string such as 'host=/tmp dbname=postgres'")
    parser.add_argument("-o", "--output", type=_output, action="append", metavar="FILE",
                        help="output file, ending in .png or .svg; or, with one trace, in .json (Chrome trace events, for Perfetto);"
                             " once or several times (default: timeline.png)")
    parser.add_argument("--from", dest="begin", type=float, default=0.0, metavar="MS", help="begin this long after the trace's first I/O")
    parser.add_argument("--to", dest="end", type=float, metavar="MS", help="end this long after the trace's first I/O")
    parser.add_argument("--zoom", type=float, metavar="MS", help="show this many ms from the beginning beside the whole")
    parsed = parser.parse_intermixed_args(argv)
    if len(parsed.traces) > 1 and any(path.suffix == EXPORT for path in parsed.output or ()):
        parser.error("a file that ends in .json has one trace")
    if parsed.end is not None and parsed.end <= parsed.begin:
        parser.error("--to must be later than --from")
    return parsed


def main(argv: list[str] | None = None) -> int:
    parsed = _parse(argv)
    paths = parsed.output or [Path("timeline.png")]
    drawn = [path for path in paths if path.suffix != EXPORT]
    wanted = ["matplotlib"] * bool(drawn) + ["psycopg"] * any(map(trace.is_dsn, parsed.traces))

    def body() -> int:
        traces = [trace.from_server(source) if trace.is_dsn(source) else trace.from_file(Path(source)) for source in parsed.traces]
        for path in paths:
            if path.suffix == EXPORT:
                path.write_text(export.chrome(traces[0]))
        if drawn:
            found = panels.of(traces)
            if parsed.begin > (last := max(panel.end for panel in found)):
                raise project.Problem(f"--from {parsed.begin:g} is behind the last I/O, which ended {last:.1f} ms after the first began")
            from . import picture

            picture.draw(found, drawn, begin=parsed.begin, end=parsed.end, zoom=parsed.zoom)
        print("\n".join(map(str, paths)))
        return 0

    return project.perform("bench/timeline", body, modules=wanted)
