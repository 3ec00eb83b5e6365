"""Figures and findings in words, for table, picture and page."""

from .casefile import Case
from .figures import FIGURES
from .results import ContrastResult, Report
from .stats import SAME, Ratio


def ms(value: float) -> str:
    return f"{value:.0f} ms" if value >= 100 else f"{value:.1f} ms" if value >= 1 else f"{value:.2g} ms"


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def amount(case: Case, value: float) -> str:
    if case.unit == "ms":
        return ms(value)
    return f"{number(value)} {case.unit}".strip()


def factor(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _digits(ratio: Ratio) -> int:
    """Returns the digits of figures whose small differences count, and of others."""
    return 4 if 0 < ratio.same < SAME else 2


def times(ratio: Ratio) -> str:
    return factor(ratio.ratio) if _digits(ratio) == 2 else f"{ratio.ratio:.{_digits(ratio)}f}"


def interval(ratio: Ratio) -> str:
    return f"[{ratio.low:.{_digits(ratio)}f}, {ratio.high:.{_digits(ratio)}f}]"


def confidence(report: Report) -> str:
    """Returns how sure the intervals of ratios are."""
    return "95 %" if report.corrected_for == 1 else f"95 % for all {report.corrected_for} together"


def joined(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def is_time(case: Case) -> bool:
    return case.figure.high == "slower"


def _as(case: Case) -> str:
    """Returns the words between "as" and "as"."""
    if case.figure.low == "less":
        return "much " + case.figure.title.partition(" (")[0]
    return "long" if is_time(case) else f"many {case.unit.removeprefix('k ')}"


def column(name: str) -> str:
    """Returns the title of a column of this figure."""
    unit = {"ms": " (ms)", "µs": " (µs)", "k instructions": " (thousands)"}.get(FIGURES[name].unit, "")
    return name.replace("_", " ") + unit


def verb(case: Case) -> str:
    return "takes" if is_time(case) else "has"


def _finding_of_one(report: Report) -> str:
    parts = []
    for server in report.servers:
        medians = {variant: summary.median for variant in report.runs if (summary := report.summary(variant, server.label))}
        told = [f"{amount(report.case, median)} ({variant})" for variant, median in medians.items()]
        if len(told) > NAMED:
            told = [f"{number(min(medians.values()))} to {amount(report.case, max(medians.values()))} (in {len(told)} combinations)"]
        if told:
            parts.append(f"{server.label} {verb(report.case)} {joined(told)}")
    return "; ".join(parts) or "nothing could be measured"


# more variants are counted, not named
NAMED = 4


def named_or_counted(variants: list[str]) -> str:
    if len(variants) > NAMED:
        return f"{len(variants)} combinations"
    # variants of several values are in parentheses, as commas separate both
    return joined([f"({variant})" if "," in variant else variant for variant in variants])


def _range(ratios: list[tuple[str, Ratio]]) -> str:
    if len(ratios) <= NAMED:
        return joined([f"{times(ratio)} times ({variant})" for variant, ratio in ratios])
    least, *_, most = sorted((ratio for _, ratio in ratios), key=lambda ratio: ratio.ratio)
    return f"{times(least)} to {times(most)} times (in {len(ratios)} combinations)"


def _difference(report: Report, ratios: dict[str, Ratio]) -> list[str]:
    first, second = (server.label for server in report.servers)
    differing = [(variant, ratio) for variant, ratio in ratios.items() if ratio.sign in ("higher", "lower")]
    others = [variant for variant, ratio in ratios.items() if ratio.sign == "same"]
    unclear = {variant: ratio for variant, ratio in ratios.items() if ratio.sign is None}
    parts = []
    if differing:
        parts.append(f"{first} {verb(report.case)} {_range(differing)} as {_as(report.case)} as {second}")
    if others:
        # without a figure it reads like time
        what = "" if is_time(report.case) else f" in {report.case.figure.title.partition(' (')[0].removeprefix('thousands of ')}"
        parts.append(f"no difference{what}" + (f" between {first} and {second}" if not differing else "") + (f" with {named_or_counted(others)}" if differing or unclear else ""))
    if unclear:
        low, high = min(ratio.low for ratio in unclear.values()), max(ratio.high for ratio in unclear.values())
        parts.append("cannot tell " + (f"with {named_or_counted(list(unclear))}" if parts else f"whether {first} and {second} differ")
                     + f" ({factor(low)} to {factor(high)} times)")
    return parts


def finding(report: Report) -> str:
    """Returns in one sentence whether the servers differ, or what one server needs."""
    ratios = {variant: ratio for variant in report.runs if (ratio := report.ratio(variant))}
    told = "; ".join(_difference(report, ratios)) if ratios else _finding_of_one(report)
    return told[:1].upper() + told[1:]


def verdict(sign: str | None, expected: str | None) -> str:
    """Returns the sign that was found, and whether the case promises it."""
    told, wanted = ("no difference" if word == "same" else word for word in (sign, expected))
    if told is None or wanted is None:
        return told or "cannot tell"
    return f"{told}, as expected" if told == wanted else f"{told}; expected: {wanted}"


def promise(report: Report) -> str:
    """Returns what the case promises on every machine, and whether it was kept.  Empty if it promises nothing."""
    promises = report.promises()
    if not promises:
        return ""
    first, second = (server.label for server in report.servers)
    kept = [variant for variant, kept in promises.items() if kept]
    broken = [variant for variant, kept in promises.items() if not kept]
    told = f"promised: {first} at least {report.case.at_least:g} times {second}: "
    return told + "; ".join(filter(None, [f"met with {joined(kept)}" if kept else "", f"NOT MET with {joined(broken)}" if broken else ""]))


def storage(report: Report) -> str:
    if report.case.simulated:
        return "not read: reads are simulated"
    where = report.storage
    words = [where.file_system + (f" on {where.device}" if where.device else "")]
    if where.no_direct_io:
        words.append(f"no direct I/O: {where.no_direct_io}")
    elif where.direct_read_us is not None:
        words.append(f"one direct read of 8 kB: {where.direct_read_us:.0f} µs")
    return "; ".join(words)


def contrast(report: Report, found: ContrastResult) -> str:
    """Returns the comparison of two variants on one server, in one line."""
    sign = verdict(report.case.figure.sign(found.ratio.sign), found.expected_sign)
    return f"{found.server}: {found.of} against {found.to}: {times(found.ratio)}  {interval(found.ratio)}  {sign}"


def number_of_runs(report: Report) -> str:
    numbers = {len(runs) for by_server in report.runs.values() for runs in by_server.values()}
    return f"{joined([str(number) for number in sorted(numbers)])} runs"


def how_read(report: Report) -> str:
    real = "direct and buffered I/O" if report.direct_io is None else "direct I/O" if report.direct_io else "through the page cache"
    simulated = f"simulated device{'s' * (len(report.devices()) > 1)} {joined(list(report.devices()))}".rstrip()
    return simulated if report.case.simulated else f"{real}, or {simulated}" if report.devices() else real


def recorded(report: Report, variant: str) -> str:
    """Returns the title of a timeline of one more run."""
    return f"{report.case.id}: {report.case.title}; {how_read(report)}; {variant}; one more run, slower as it is recorded"


def devices(report: Report) -> list[str]:
    return [f"Simulated device {name}: {device.told()}" for name, device in report.devices().items()]


def machine(report: Report) -> str:
    what = report.machine
    return f"{what.kernel}; {what.cpus} × {what.cpu_model}; {what.memory_gb:.0f} GB"


def skipped(report: Report) -> list[str]:
    """Returns what could not be measured and why, each reason once; also that nothing was read, though the cache was cold."""
    servers: dict[tuple[str, str], list[str]] = {}
    for skipped in report.skipped:
        servers.setdefault((skipped.variant, skipped.reason), []).append(skipped.server)
    read = [blocks for variant in report.runs for server in report.servers for blocks in report.values(variant, server.label, "read_blocks")]
    cold = all((variant.value_of("cache") or "warm") != "warm" for variant in report.case.variants)
    # a session and the gate's worker need a core each
    crowded = report.case.simulated and report.machine.cpus * (1 - report.machine.cpu_in_use) <= 1.8
    return [f"{variant} skipped on {joined(names)}: {reason}" for (variant, reason), names in servers.items()] + [
        "no core to spare: reads on the simulated device are late"] * crowded + [
        "no run has read a block: nothing here is about reads"] * (cold and bool(read) and not any(read))
