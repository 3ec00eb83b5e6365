"""Runs the test suite and the lab on a server before and after a patch, and writes one report."""

import sys

from lab import project

sys.path.append(str(project.ROOT / "mutants"))
