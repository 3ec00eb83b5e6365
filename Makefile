# Makefile of test_aio.  "make help" says what there is to make.
#
# Sources, SQL scripts and tests are found by their names: a new file needs no
# change here.

MODULE_big = test_aio
EXTENSION = test_aio
DATA = $(wildcard test_aio--*.sql)
OBJS = $(patsubst %.c,%.o,$(wildcard src/*.c src/*/*.c))
REGRESS ?= $(sort $(basename $(notdir $(wildcard sql/*.sql))))
$(foreach test,$(if $(wildcard sql),$(REGRESS)),$(if $(wildcard sql/$(test).sql),,$(error there is no regression test sql/$(test).sql; there are $(wildcard sql/*.sql))))
REGRESS_OPTS = --load-extension=test_aio
TAP_TESTS = 1
PROVE_TESTS ?= $(wildcard t/*.pl t/*/*.pl t/*/*/*.pl)
EXTRA_CLEAN = .built_for $(wildcard src/*.bc src/*/*.bc)

# The version is written in the control file and nowhere else.
version = $(shell sed -n "s/^default_version *= *'\(.*\)'.*/\1/p" test_aio.control)
PG_CPPFLAGS = -DPG_TEST_AIO_VERSION='"$(version)"' -Isrc
PG_CFLAGS = -Wall -Wextra
# Warnings about the server's own headers are not for us to mend.  Both
# directories, so that their order stays the same.
PG_CPPFLAGS += -isystem $(includedir_server) -isystem $(includedir_internal)

# GATE=no leaves the I/O gate and the trace out, as where they cannot be: the
# server's I/O method is left alone, and those who ask for them are told why.
ifeq ($(GATE),no)
PG_CPPFLAGS += -DTEST_AIO_NO_GATE
endif

PG_CONFIG ?= pg_config

# These need no server, and define targets that PGXS has its own mind about.
serverless = help check check-long psql demo servers structure strict indent dist deb clean distclean
goals = $(or $(MAKECMDGOALS),all)

ifeq ($(filter-out $(serverless),$(goals)),)
include servers/serverless.mk
else
ifneq ($(filter $(filter-out clean distclean,$(serverless)),$(goals)),)
$(error "$(filter $(serverless),$(goals))" sets up its own build: ask for it by itself)
endif

advice = Name one: make PG_CONFIG=/path/to/pg_config; or "make check", which sets up a server of its own, or takes one of servers/provide: SERVER=18-stock
server := $(shell $(PG_CONFIG) --version 2>/dev/null)
ifneq ($(firstword $(server)),PostgreSQL)
$(error $(PG_CONFIG) $(if $(server),is no pg_config of PostgreSQL,cannot be run, which is to say where PostgreSQL is). $(advice))
endif
ifneq ($(and $(filter installcheck,$(goals)),$(TAP_TESTS)),)
ifeq ($(shell id -u),0)
$(error the TAP tests start servers, which root may not: "make installcheck" as an ordinary user, or without them, TAP_TESTS=)
endif
ifneq ($(shell perl -MIPC::Run -e 'print "yes"' 2>/dev/null),yes)
$(error the TAP tests need Perl's IPC::Run: the package libipc-run-perl of Debian, perl-IPC-Run of Fedora; or leave them out, TAP_TESTS=)
endif
endif
major := $(shell echo '$(server)' | sed 's/^[^0-9]*\([0-9]*\).*/\1/')
ifneq ($(shell test '$(major)' -ge 18 && echo yes),yes)
$(error test_aio needs PostgreSQL 18 or later, and $(PG_CONFIG) belongs to $(server). $(advice))
endif
PGXS := $(shell $(PG_CONFIG) --pgxs)
ifeq ($(and $(wildcard $(PGXS)),$(wildcard $(shell $(PG_CONFIG) --includedir-server)/postgres.h)),)
$(error $(server) of $(PG_CONFIG) is there without its development files, on Debian postgresql-server-dev-$(major))
endif

# the tests ask for these, and PGXS does not tell them
export enable_injection_points PG_CONFIG

all:
include $(PGXS)
# where TestAio.pm lies
PG_PROVE_FLAGS += -I $(srcdir)/t

# Objects of another server, of the same server built anew, or of other flags are
# compiled again: PGXS would take them as they are.  Where the server lies is no matter.
# Nor does PGXS know dependencies on headers, unless the server was configured so.
built_for := $(server), headers $(shell cd '$(includedir_server)' && find . -name '*.h' | LC_ALL=C sort | xargs cat | cksum), $(subst $(bindir:/bin=),,$(COMPILE.c))
ifneq ($(built_for),$(file <.built_for))
$(file >.built_for,$(built_for))
endif
$(OBJS) $(OBJS:.o=.bc): .built_for $(wildcard src/*.h src/*/*.h)
endif
