"""bench/demo: measures R3 on two servers and draws it."""

from argparse import Namespace

from .. import project, servers
from . import arguments

# no round of a variant begins later, so that the whole takes two minutes
SECONDS = 20

# ms shown beside the whole timeline: time for some tens of reads one by one
ZOOM = 30.0

STORY = """\
A read stream is asked for blocks 1 2 3 4, 2 3 4 5, 3 4 5 6 and so on.  It is already reading three of four.
A server that waits for each of them reads one block at a time.  One that goes on has many reads under way when it waits.
The demo measures this on the machine's storage, then on a simulated device where each read takes 1 ms."""

LEGEND = """\
The timeline of the statement on the device: a bar is a read, orange is time in which the session waits for one.
Perfetto opens the .json files."""


def main(argv: list[str] | None = None) -> int:
    given = arguments.parse_demo(argv)
    return project.perform("bench/demo", lambda: run(given), names=[server.name for server in given.servers], modules=project.MODULES)


def run(given: Namespace) -> int:
    from rich.console import Console
    from rich.text import Text

    from ..timeline import export, panels, picture, trace
    from . import casefile, session, table, wording
    from .output import Output

    console = Console(highlight=False)

    def say(text: str) -> None:
        console.print(text, markup=False, soft_wrap=True)

    # servers/provide has said which Debian's archive does not have
    there = [server for server in given.servers if server.name.startswith("pg_config:") or servers.ask_scripts('! is_provided "$1" || echo yes', server.name)]
    if not there:
        return 1
    say(f"{STORY}\n")
    cases = [casefile.load(path) for path in given.cases]
    effort = session.Effort(runs=given.runs or casefile.MIN_RUNS, seconds=SECONDS, enough=lambda ratio: ratio.sign is not None)
    output = Output(given.output)
    reports, written = [], []
    with session.begin(there, given.work, console) as lab:
        lab.expect(cases, effort)
        for case in cases:
            reports.append(lab.measure(case, effort))
            # kept at once, so that a later failure does not lose it
            written.append(output.keep(reports[-1]))
        recorded = lab.record(traced := cases[-1].variants[0])
    traces = [trace.from_rows(server.label, *each) for server, each in zip(reports[-1].servers, recorded)]
    drawn = panels.of(traces)
    paths = [output.directory / "timeline.png"]
    picture.draw(drawn, paths, wording.recorded(reports[-1], traced.label), zoom=ZOOM)
    for number, each in enumerate(traces, 1):
        paths.append(output.directory / f"timeline-{number}.json")
        paths[-1].write_text(export.chrome(each))
    output.own(*paths)
    for number, report in enumerate(reports):
        # servers and machine are the same the second time
        table.show(report, console, whole=number == 0)
        say(", ".join(map(str, written[number])))
    say(f"\n{LEGEND}")
    for panel in drawn:
        console.print(Text.assemble((panel.trace.label, "bold"), f": {panel.summary()}"), soft_wrap=True)
    for path in paths:
        say(str(path))
    for server in set(given.servers) - set(there):
        say(f"{server.name} is missing: with it the demo shows both, --server {there[0].name} --server /path/to/pg_config")
    return 0 if all(all(report.promises().values()) for report in reports) else 1
