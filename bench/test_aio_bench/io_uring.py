"""Whether a server can use io_uring here."""

from __future__ import annotations

from .servers import Cluster, ServerError


def why_not(cluster: Cluster) -> str | None:
    """None if it can.  Asked where the server will run, as limits and seccomp
    filters are inherited."""
    said = cluster.ask("sh", "-c", 'exec "$TEST_AIO_SOURCE/servers/io_uring_probe" "$PG_CONFIG"')
    if said.returncode == 0:
        return None
    if said.returncode == 1:
        return said.stdout.strip()
    raise ServerError(f"{cluster.server}: {said.stderr.strip()}")
