"""Judges servers.  project: the checkout, and how a command begins and ends; servers: how a server is named, asked, compiled, staged,
started and connected to.  The packages below stand on these two."""
