"""One run of a script: what fails, if anything does."""

from .cluster import Cluster
from .driver import Driver, Failure
from .script import Script


def attempt(cluster: Cluster, script: Script) -> tuple[str | None, Driver]:
    import psycopg

    driver = Driver(cluster, script)
    try:
        driver.begin()
        driver.run()
    except (Failure, TimeoutError) as failure:
        return str(failure), driver
    except (psycopg.Error, RuntimeError) as error:
        alarming = driver.alarming()
        return f"{type(error).__name__}: {error}\n{alarming}", driver
    return None, driver
