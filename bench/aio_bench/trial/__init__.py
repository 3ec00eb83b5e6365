"""Runs the test suite and the lab on a server before and after a patch, and writes one report."""
