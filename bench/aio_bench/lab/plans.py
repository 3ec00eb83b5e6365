"""The plan that a case expects.  A run with another plan is an error."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the nodes of a plan of EXPLAIN (FORMAT JSON), each before those below it."""
    return [plan, *(node for child in plan.get("Plans", []) for node in nodes(child))]


def name(node: dict[str, Any]) -> str:
    """Returns a node as EXPLAIN writes it in text, without schema and alias."""
    words = [
        "Parallel" if node.get("Parallel Aware") else "",
        node["Node Type"],
        "Backward" if node.get("Scan Direction") == "Backward" else "",
        f"using {node['Index Name']}" if "Index Name" in node and "Relation Name" in node else "",
        f"on {node.get('Relation Name', node.get('Index Name'))}" if {"Relation Name", "Index Name"} & node.keys() else "",
    ]
    return " ".join(filter(None, words))


@dataclass(frozen=True)
class Expected:
    #: nodes, each before those below it; empty: any plan
    names: Sequence[str]
    #: minimum counts of EXPLAIN (ANALYZE), summed over all nodes
    counts: dict[str, int] = field(default_factory=dict)

    def difference(self, plan: dict[str, Any]) -> str | None:
        """Returns how this plan differs from the expected one, or None if it does not."""
        found = [name(node) for node in nodes(plan)]
        if self.names and found != list(self.names):
            return f"the plan is {' > '.join(found)}, and the case is about {' > '.join(self.names)}"
        for count, least in self.counts.items():
            if "Actual Rows" in plan and (counted := sum(node.get(count, 0) for node in nodes(plan))) < least:
                return f"{count}: {counted}, where the case is about at least {least}"
        return None
