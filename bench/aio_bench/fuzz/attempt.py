"""One run of a script: what fails, if anything does."""

import os
import signal
from contextlib import suppress
from math import inf

from .. import processes
from ..explorer.client import Lost
from ..servers import ServerError
from .cluster import Cluster
from .driver import Driver, Failure
from .known import known
from .script import Script


def attempt(cluster: Cluster, script: Script, until: float = inf) -> tuple[str | None, Driver]:
    import psycopg

    driver = Driver(cluster, script)
    try:
        driver.begin()
        driver.run(until)
    except (Failure, Lost, TimeoutError, ServerError, psycopg.Error, RuntimeError) as error:
        why = str(error) if isinstance(error, Failure) else f"{type(error).__name__}: {error}\n{driver.alarming()}\n{driver.running()}"
        # a fast shutdown while the server restarts after a crash lasts for ever (doc/reports/shutdown-after-crash)
        for pid in processes.pids(cluster.data):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGQUIT)
        facts = f"{'with' if cluster.build.has_assertions else 'without'} assertions, {'with' if any('USING brin' in sql for sql in script.setup) else 'without'} BRIN"
        if cluster.build.major < 19 and any(line.startswith("-- reload io_workers") for line in driver.trail):
            facts += "\nio_workers was changed on 18"
        # replay reads such pages where full pages are not written, or were not for a while
        if script.settings.get("full_page_writes") == "off" or "-- reload full_page_writes off" in driver.trail:
            facts += "\nfull_page_writes = off" + "\nchecksums were disabled on a standby" * ("-- checksums disable" in driver.trail and any(line.startswith("-- standby") for line in driver.trail))
        if what := known(f"{why}\n{facts}"):
            driver.ended = what
            return None, driver
        return why, driver
    return None, driver
