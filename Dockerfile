# PostgreSQL with test_aio, for experiments and tests; podman takes the same commands:
#
#   docker build -t test_aio .
#   docker run -d --rm --name aio -e POSTGRES_HOST_AUTH_METHOD=trust test_aio
#   docker exec -it aio psql -U postgres          # and there: CREATE EXTENSION test_aio;
#
# With io_method=io_uring, which the container's profile forbids without the first option:
#
#   docker run … --security-opt seccomp=unconfined --ulimit memlock=-1 test_aio \
#     postgres -c shared_preload_libraries=test_aio -c io_method=io_uring
#
# Can it be used here?  docker run, with the same options, --entrypoint io_uring_probe test_aio --explain
# --build-arg PG=19 for another version.
ARG PG=18
FROM docker.io/library/postgres:${PG} AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev make postgresql-server-dev-$PG_MAJOR
COPY . /usr/src/test_aio
WORKDIR /usr/src/test_aio
RUN make PG_CONFIG=/usr/lib/postgresql/$PG_MAJOR/bin/pg_config with_llvm=no
RUN make PG_CONFIG=/usr/lib/postgresql/$PG_MAJOR/bin/pg_config with_llvm=no install DESTDIR=/stage

FROM docker.io/library/postgres:${PG}
COPY --from=build /stage/ /
COPY servers/io_uring_probe /usr/local/bin/
CMD ["postgres", "-c", "shared_preload_libraries=test_aio"]
