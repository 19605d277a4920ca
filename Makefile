# inbox: lease queues in PostgreSQL.  See README.md; `make demo` and
# `make test` need nothing but a Debian or Ubuntu machine.

EXTENSION = inbox
EXTVERSION := $(shell sed -n "s/^default_version *= *'\(.*\)'/\1/p" inbox.control)
MODULE_big = inbox
OBJS = $(patsubst %.c,%.o,$(sort $(wildcard src/*.c)))
PG_CPPFLAGS = -DINBOX_VERSION='"$(EXTVERSION)"'

SCRIPT = src/sql/$(EXTENSION)--$(EXTVERSION).sql
DATA = $(filter-out $(SCRIPT),$(wildcard src/sql/$(EXTENSION)--*.sql))
DATA_built = $(SCRIPT)

REGRESS = $(patsubst sql/%.sql,%,$(sort $(wildcard sql/*.sql)))
ISOLATION = $(patsubst test/specs/%.spec,%,$(sort $(wildcard test/specs/*.spec)))
ISOLATION_OPTS = --inputdir=$(srcdir)/test --load-extension=$(EXTENSION)
TAP_TESTS = 1
PROVE_TESTS = test/t/*.pl

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

$(OBJS): $(wildcard src/*.h)

$(SCRIPT): src/sql/$(EXTENSION).sql
	cp $< $@
