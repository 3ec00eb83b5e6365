# PostgreSQL with test_aio, for experiments and tests; podman takes the same commands:
#
#   docker build -t test_aio .
#   docker run --rm -e POSTGRES_HOST_AUTH_METHOD=trust --security-opt seccomp=unconfined test_aio
#
# Without the last option the container's profile forbids io_uring; io_method=worker
# works either way.  --build-arg PG=19 for another version.
ARG PG=18
FROM docker.io/library/postgres:${PG} AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev make postgresql-server-dev-$PG_MAJOR
COPY . /usr/src/test_aio
WORKDIR /usr/src/test_aio
RUN make PG_CONFIG=/usr/lib/postgresql/$PG_MAJOR/bin/pg_config with_llvm=no
RUN make PG_CONFIG=/usr/lib/postgresql/$PG_MAJOR/bin/pg_config with_llvm=no install DESTDIR=/stage

FROM docker.io/library/postgres:${PG}
COPY --from=build /stage/ /
CMD ["postgres", "-c", "shared_preload_libraries=test_aio"]
