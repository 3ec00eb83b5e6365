"""Settings of a server and the tables, drawn for each run: few of anything, in one run, and many in another."""

from random import Random
from typing import Any

FIXED = {
    "shared_preload_libraries": "test_aio",
    "test_aio.gate": "try",
    "test_aio.hold_timeout": "500ms",
    "test_aio.trace_size": "20000",
    "deadlock_timeout": "100ms",
    "log_line_prefix": "%p|%b|%e|",
    "log_min_error_statement": "panic",
    "log_checkpoints": "off",
    "max_prepared_transactions": "8",
    "max_connections": "20",
    "jit": "off",
    "timezone": "UTC",
    "track_io_timing": "on",
    "min_parallel_table_scan_size": "0",
    "parallel_setup_cost": "0",
    "parallel_tuple_cost": "0",
    "synchronize_seqscans": "off",
    "allow_in_place_tablespaces": "on",
}

EXTENSIONS = ("test_aio", "pg_buffercache", "pg_prewarm", "amcheck", "pgstattuple", "pg_visibility", "pageinspect", "pg_freespacemap", "pg_walinspect")

#: what a server draws from; the default is what most runs have
CHOICES: dict[str, tuple[str, ...]] = {
    "shared_buffers": ("1MB", "2MB", "2MB", "8MB", "32MB"),
    "temp_buffers": ("100", "256", "1200MB"),
    "io_max_concurrency": ("1", "2", "8", "64"),
    "io_workers": ("1", "2", "3", "8"),
    "io_combine_limit": ("1", "2", "7", "16", "32", "128"),
    "io_max_combine_limit": ("1", "4", "16", "128", "128"),
    "effective_io_concurrency": ("0", "1", "2", "16", "16", "100", "1000"),
    "maintenance_io_concurrency": ("0", "1", "16", "100"),
    "max_files_per_process": ("64", "1000", "1000"),
    "max_parallel_workers_per_gather": ("0", "2"),
    "min_parallel_index_scan_size": ("0", "0", "32kB"),
    "work_mem": ("64kB", "64kB", "4MB"),
    "hash_mem_multiplier": ("1", "2"),
    "maintenance_work_mem": ("64kB", "1MB", "64MB"),
    "vacuum_buffer_usage_limit": ("0", "128kB", "2MB"),
    "full_page_writes": ("on", "on", "off"),
    "wal_compression": ("off", "on"),
    # replay compares each page with the one that was logged
    "wal_consistency_checking": ("", "", "all"),
    "autovacuum": ("off", "on"),
    "autovacuum_naptime": ("1",),
    "bgwriter_lru_maxpages": ("0", "100"),
    "bgwriter_delay": ("10ms", "200ms"),
    "checkpoint_flush_after": ("0", "1", "32"),
    "backend_flush_after": ("0", "1"),
    "recovery_prefetch": ("try", "off", "on"),
    "pg_prewarm.autoprewarm": ("on", "off"),
    "fsync": ("off", "on"),
    "debug_io_direct": ("", "", "data", "data, wal"),
    "wal_skip_threshold": ("0", "2MB"),
    "autovacuum_vacuum_cost_delay": ("0",),
}

#: settings whose values are sorted
EXTREME = ("shared_buffers", "temp_buffers", "io_max_concurrency", "io_workers", "io_combine_limit", "io_max_combine_limit", "effective_io_concurrency", "maintenance_io_concurrency",
           "max_files_per_process", "work_mem", "maintenance_work_mem")
TABLE = "(id int, v int, k int, p point, a int[], body text STORAGE {storage})"
INDEXES = {
    "covering": "CREATE INDEX ON {t} (id, v)", "k": "CREATE INDEX ON {t} (k)", "hash": "CREATE INDEX ON {t} USING hash (id)", "gist": "CREATE INDEX ON {t} USING gist (p)",
    "gin": "CREATE INDEX ON {t} USING gin (a)", "spgist": "CREATE INDEX ON {t} USING spgist (p)", "brin": "CREATE INDEX ON {t} USING brin (id) WITH (pages_per_range = 2)",
    "v": "CREATE INDEX ON {t} (v)", "partial": "CREATE INDEX ON {t} (id) WHERE k < 10",
}
ROW = "{id}, {v}, {id} % 37, point({id}, {v}), ARRAY[{id} % 17, 100 + {v} % 13], payload({id}, {v})"
#: ids of rows that are there from the beginning
FILLED = 600
SHARED = ("heap", "parts", "unlogged", "heap2")


def draw_settings(random: Random, method: str) -> dict[str, str]:
    # most of a run's settings are the server's own, so that what is found depends on few
    drawn = {name: random.choice(values) for name, values in CHOICES.items() if random.random() < 0.7 or len(values) == 1}
    extreme = random.random()
    if extreme < 0.2:
        # all few, or all many
        drawn |= {name: CHOICES[name][0 if extreme < 0.1 else -1] for name in EXTREME}
    settings = FIXED | drawn | {"io_method": method}
    if settings.get("pg_prewarm.autoprewarm"):
        settings["shared_preload_libraries"] = "test_aio, pg_prewarm"
    # most often, for a crash would end the run (consistency-check-new-page)
    if settings.get("wal_consistency_checking") and random.random() < 0.9:
        settings["full_page_writes"] = "on"
    if random.random() < 0.25:
        settings |= {"wal_level": "minimal", "max_wal_senders": "0"}
    elif random.random() < 0.5:
        settings["summarize_wal"] = "on"
    # so many local buffers that a stream may pin more than it can count
    if settings.get("temp_buffers") == "1200MB":
        settings["io_max_combine_limit"] = "128"
    # a stream is to have a few buffers in the smallest pool
    if settings.get("shared_buffers") == "1MB":
        settings["max_worker_processes"] = "4"
    return settings


def draw_shape(random: Random, settings: dict[str, str]) -> dict[str, Any]:
    return {"checksums": random.random() < 0.7, "width": random.choice((4, 8, 60)), "long": random.choice((0, 23)),
            # with hot_standby_feedback, without, or no standby
            "standby": random.choice(("on", "off", *[""] * 6)) if settings.get("wal_level") != "minimal" else ""}


def storage_sql(random: Random, name: str, kind: str) -> list[str]:
    """Returns what makes a table with indexes."""
    columns = TABLE.format(storage=random.choice(("extended", "external", "main")))
    fill = f" WITH (fillfactor = {random.choice((20, 70, 100))}){' TABLESPACE aside' if kind != 'temp' and random.random() < 0.25 else ''}"
    if kind == "parts":
        made = [f"CREATE TABLE {name} {columns} PARTITION BY RANGE (id)"]
        made += [f"CREATE TABLE {name}_{low} PARTITION OF {name} FOR VALUES FROM ({low}) TO ({low + 400}){fill}" for low in (0, 400, 800)]
    else:
        made = [f"CREATE {'UNLOGGED ' if kind == 'unlogged' else 'TEMP ' if kind == 'temp' else ''}TABLE {name} {columns}{fill}"]
    made += [random.choice((f"CREATE INDEX {name}_id ON {name} (id)", f"CREATE UNIQUE INDEX {name}_id ON {name} (id)",
                            *[f"ALTER TABLE {name} ADD CONSTRAINT {name}_id PRIMARY KEY (id)"] * (kind != "parts")))]
    return made + [INDEXES[index].format(t=name) for index in sorted(random.sample([*INDEXES], 3 if kind != "temp" else 1))]


def filler(table: str, rows: int, first: int = 1) -> str:
    """Returns what adds rows that are of no session."""
    return f"INSERT INTO {table} SELECT {ROW.format(id='(-1 - 4 * i)', v=0)} FROM generate_series({first}, {first + rows - 1}) i"


def draw_setup(random: Random, shape: dict[str, Any]) -> list[str]:
    long = f" || CASE WHEN (id + v) % {shape['long']} = 0 THEN (SELECT string_agg(md5((id * v + i)::text), '') FROM generate_series(1, 300) i) ELSE '' END" if shape["long"] else ""
    made = [
        "CREATE FUNCTION payload(id int8, v int8) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE"
        f" AS $$ SELECT repeat(md5(id::text || '.' || v), 1 + (id * 7 + v)::int % {shape['width']}){long} $$",
        "CREATE ROLE app LOGIN; GRANT pg_read_server_files, pg_write_server_files, pg_checkpoint, pg_read_all_stats TO app; GRANT ALL ON SCHEMA public TO app",
        "SET allow_in_place_tablespaces = on", "CREATE TABLESPACE aside LOCATION ''", "GRANT CREATE ON TABLESPACE aside TO app",
        "SET SESSION AUTHORIZATION app",
    ]
    for name in SHARED:
        made += storage_sql(random, name, "unlogged" if name == "unlogged" else "parts" if name == "parts" else "heap")
        made += [f"INSERT INTO {name} SELECT {ROW.format(id='i', v=0)} FROM generate_series(0, {FILLED - 1}) i"]
    if random.random() < 0.5:
        # COPY goes row by row
        made += ["CREATE FUNCTION pass() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END'", "CREATE TRIGGER pass BEFORE INSERT ON parts FOR EACH ROW EXECUTE FUNCTION pass()"]
    made += ["CREATE SEQUENCE counter", "CREATE VIEW seen AS SELECT id, v FROM heap", "CREATE MATERIALIZED VIEW mat AS SELECT id, v FROM heap", "CREATE UNIQUE INDEX ON mat (id)"]
    # many more blocks
    made += [filler(name, random.choice((300, 3000, 12000))) for name in random.sample(("heap", "heap2", "unlogged"), random.randrange(3))]
    for owner in range(4):
        made += storage_sql(random, f"own{owner}", random.choice(("heap", "heap", "unlogged")))
        made += [f"INSERT INTO own{owner} SELECT {ROW.format(id='i', v=0)} FROM generate_series({owner}, {FILLED - 1}, 4) i"]
    # who may only read
    return [*made, "RESET SESSION AUTHORIZATION", "CREATE ROLE reader; GRANT reader TO app; GRANT SELECT ON heap, heap2, parts, mat TO reader", "CHECKPOINT"]
