"""A server before and after a patch: the test suite and the lab on both, and one report."""
