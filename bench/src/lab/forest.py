"""All comparisons of a session in one picture: a row for each case and I/O method."""

from pathlib import Path

from matplotlib import pyplot

from . import contrasts, wording
from .results import Report
from .stats import Ratio

SAME = "#AAAAAA"


def rows(reports: list[Report]) -> dict[str, list[tuple[Report, Ratio]]]:
    """Returns the ratios of the variants, by case and I/O method."""
    found: dict[str, list[tuple[Report, Ratio]]] = {}
    for report in reports:
        methods = {variant.label: variant.value_of("io_method") or "" for variant in report.case.variants}
        for variant in report.runs:
            if ratio := report.ratio(variant):
                found.setdefault(f"{report.case.id}  {report.case.title}, {methods[variant]}".rstrip(", "), []).append((report, ratio))
    return found


def told(reports: list[Report]) -> str:
    """Returns what the picture shows, in a sentence."""
    made = rows(reports)
    signs = [{ratio.sign for _, ratio in ratios} for ratios in made.values()]
    differing = sum(bool(each & {"higher", "lower"}) for each in signs)
    same = sum(each == {"same"} for each in signs)
    servers = wording.joined([server.label for server in reports[0].servers])
    told = f"{servers}: a difference in {differing} of {len(made)} rows, no difference in {same}"
    return told + (f", cannot tell in {unclear}" if (unclear := len(made) - differing - same) else "")


def draw(reports: list[Report], path: Path) -> None:
    """Draws an interval for each comparison: green where the first server is better, red where it is worse, grey where
    there is no difference, and a ring where the interval is too wide to tell."""
    made = rows(reports)
    figure, axes = pyplot.subplots(figsize=(11, 1.8 + 0.32 * len(made)), layout="constrained")
    for position, ratios in enumerate(made.values()):
        for number, (report, ratio) in enumerate(ratios):
            at = position + (number - (len(ratios) - 1) / 2) * min(0.2, 0.7 / len(ratios))
            differs = ratio.sign in ("higher", "lower")
            colour = contrasts.JUDGED[report.case.figure.judged(ratio.sign)] if differs else SAME
            axes.plot([ratio.low, ratio.high], [at, at], color=colour, linewidth=1.2, zorder=2)
            axes.scatter([ratio.ratio], [at], s=22, facecolor=colour if ratio.sign else "white", edgecolor=colour, zorder=3)
    axes.axvline(1, color="#444444", linewidth=0.8)
    # a wide interval must not hide the others
    middles = [ratio.ratio for ratios in made.values() for _, ratio in ratios]
    axes.set_xscale("log")
    axes.set_xlim(min(0.5, *middles) / 1.2, max(2, *middles) * 1.2)
    contrasts.scale(axes, axes.get_xlim())
    axes.set_yticks(range(len(made)), list(made), fontsize=9)
    axes.set_ylim(len(made) - 0.4, -0.6)
    first, second = (server.label for server in reports[0].servers)
    axes.set_xlabel(f"{first} to {second}: ratio of each case's figure (time, I/Os, …)")
    contrasts.bare(axes, "x")
    axes.set_title(f"red: {first} is worse, green: better, grey: no difference, ring: cannot tell", fontsize=10.5, color="#444444", loc="left")
    figure.suptitle(told(reports), fontsize=14, fontweight="bold")
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
