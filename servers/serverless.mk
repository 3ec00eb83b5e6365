# The targets that need no server named, because they set up their own or need
# none; the Makefile includes this when nothing else is asked for.

# the user's own server, if one was named
own_server := $(if $(filter environment command,$(firstword $(origin PG_CONFIG))),$(PG_CONFIG))
CC := $(if $(filter default,$(origin CC)),gcc,$(CC))
# the command line's variables are the scripts' environment already; to overrule the server's
# Makefiles, those that concern compiling must be on the command lines of the makes inside, too
MAKEOVERRIDES := $(subst @@,\ ,$(filter $(addsuffix =%,with_llvm CC CLANG CFLAGS CPPFLAGS LDFLAGS includedir_server),$(subst \ ,@@,$(MAKEOVERRIDES))))

ifeq ($(own_server),)
# the first that has assertions and injection points
server := $(or $(SERVER),$(firstword $(shell servers/provide --names instrumented)))
provide = servers/provide '$(server)'
else
ifneq ($(SERVER),)
$(error both SERVER and PG_CONFIG name a server: name one)
endif
ifneq ($(firstword $(shell '$(own_server)' --version 2>/dev/null)),PostgreSQL)
$(error $(own_server) is no pg_config of PostgreSQL)
endif
server = pg_config:$(own_server)
provide = :
endif

# clang is told flags that the server's compiler, gcc, knows
strict_flags = -Werror $(if $(findstring clang,$(CC)),-Wno-unknown-warning-option -Wno-ignored-optimization-argument)

.PHONY: $(serverless)

help:
	@sed -n '/^# HELP/,/^# END/s/^# \{0,1\}//p' servers/serverless.mk | sed '1d;$$d'

# HELP
# make                 build, for the server of PG_CONFIG (else of pg_config in PATH)
# make install         install into that server
# make installcheck    test what is installed, on the server of PGHOST and PGPORT, and on
#                      servers of its own
# make check           test without installing anything, most tests with one io_method:
#                      on the server of PG_CONFIG, else on an 18 with assertions and
#                      injection points, which is set up first (some minutes, once)
#     SERVER=NAME          … on a server that "servers/provide --list" shows, or on one
#                          compiled from a tree: source:/path/to/checkout[@revision]
#     REGRESS=reads        … these regression tests only
#     PROVE_TESTS=distance … TAP tests with this in their path, or these: t/server/streams/*.pl
#     PROVE_FLAGS=-v       … arguments of prove
#     GATE=no              … of a library without the I/O gate and the trace
#     CHANGED=1            … of a tree: first the tests that execute the functions edited
#                          since the last commit, else by it; CHANGED=master: by the branch
# make check-long      all tests, with each io_method, every wait against every end,
#                      recordings, all of the explorer, and the generator for longer
#     BEFORE=NAME          … recordings are compared with those of this server; else each
#                          script runs twice
# make psql            psql on a new server that can CREATE EXTENSION test_aio, removed at
#                      the end: the newest stock server, or SERVER=NAME
#     CONF='io_method=io_uring; shared_buffers=16MB'
#                          … with these settings
# make demo            how much slower a read stream over repeated blocks is on 18
# make servers         set up the usual servers; "servers/provide --list" shows them
# make structure       which files of src/ use which; fails on a circle
# make strict          compile with warnings as errors, also as where there is no Linux;
#                      CC=clang or gcc, or a cross compiler with includedir_server=DIR
# make indent          format the C sources as PostgreSQL's pgindent does, Perl by perltidy
# make dist            make build/dist/test_aio-VERSION.zip, as PGXN wants it
# make deb             as root: build, check, install and test the Debian packages
# make clean           remove what was built here; make distclean: also "build"
# END

# the explorer and the generator belong to a whole run: one that REGRESS, PROVE_TESTS or GATE=no have not narrowed
is_whole := $(if $(filter environment command,$(origin REGRESS) $(origin PROVE_TESTS))$(filter no,$(GATE)),,yes)

# recordings of the server before are needed if any are made
before := $(if $(is_whole)$(findstring recordings,$(PROVE_TESTS)),servers/compare --before '$(or $(BEFORE),$(server))' '$(server)',:)
first = $(if $(CHANGED),TEST_AIO_FIRST="$$(bench/changed '$(server)' $(filter-out 1,$(CHANGED)))" && export TEST_AIO_FIRST &&)

# generate(EXPLORER'S OPTIONS,GENERATOR'S MINUTES): both at once, since each waits half its time; a shell keeps Ctrl-C from
# what runs in the background
generate = stage=$$(servers/run '$(server)' pwd)/stage; ran=$$(mktemp); rc=0; \
	bench/fuzz --if-possible --minutes $(2) --server '$(server)' --staged "$$stage" >"$$ran" 2>&1 & trap 'kill $$!' INT TERM; \
	bench/explorer --if-possible $(1) --server '$(server)' --staged "$$stage" || rc=$$?; \
	wait $$! || rc=$$?; cat "$$ran"; rm "$$ran"; exit $$rc

check:
	@$(provide)
	@$(first) servers/run --data '$(server)' "$$PWD/servers/check"
ifdef is_whole
	@$(call generate,,0.17)
endif

check-long:
	@$(provide)
	@recordings=$$($(before)) && \
		TEST_AIO_LONG=1 TEST_AIO_WAITS=all TEST_AIO_COMPARE_WITH=$$recordings servers/run $${recordings:+--read $$recordings} --data '$(server)' "$$PWD/servers/check"
ifdef is_whole
	@$(call generate,--self-test --tier long,6)
endif

# an interrupt is meant for the statement that psql runs
psql: server := $(if $(own_server)$(SERVER),$(server),$(lastword $(shell servers/provide --names stock)))
psql:
	@$(provide)
	@trap '' INT; servers/run '$(server)' "$$PWD/servers/psql"

# Python itself may not be there; else the demo tells once what is missing
demo:
	@/usr/bin/python3 -c '' || servers/provide bench $(if $(own_server),,$(shell servers/provide --names stock))
	@bench/demo

servers:
	@servers/provide all

structure:
	@$(provide)
	@servers/run '$(server)' "$$PWD/servers/build" structure
	@servers/structure "$$(servers/run '$(server)' pwd)/structure"

strict:
	@$(provide)
	@servers/run '$(server)' "$$PWD/servers/strict" '$(CC)' '$(strict_flags)'
	@echo 'no warnings: $(CC), $(server)'

indent:
	@servers/indent
	@servers/tidy

dist:
	@packaging/dist

deb:
	@packaging/deb

clean:
	rm -f test_aio.so .built_for src/*.o src/*/*.o src/*.bc src/*/*.bc
	rm -rf results regression.diffs regression.out tmp_check output_iso log .deps

distclean: clean
	rm -rf build
