"""One run of a script: what fails, if anything does."""

from math import inf

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
    except (Failure, TimeoutError, ServerError, psycopg.Error, RuntimeError) as error:
        why = str(error) if isinstance(error, Failure) else f"{type(error).__name__}: {error}\n{driver.alarming()}\n{driver.running()}"
        if what := known(why):
            driver.ended = what
            return None, driver
        return why, driver
    return None, driver
