# inbox: lease queues in PostgreSQL.  See README.md; `make demo` and
# `make test` need nothing but a Debian or Ubuntu machine.

EXTENSION = inbox
EXTVERSION := $(shell sed -n "s/^default_version *= *'\(.*\)'/\1/p" inbox.control)
MODULE_big = inbox
OBJS = $(patsubst %.c,%.o,$(sort $(wildcard src/*.c)))
PG_CPPFLAGS = -DINBOX_VERSION='"$(EXTVERSION)"'
# a function of ours must not turn into one of the server's of the same name
SHLIB_LINK = -Wl,-Bsymbolic

SCRIPT = src/sql/$(EXTENSION)--$(EXTVERSION).sql
DATA = $(filter-out $(SCRIPT),$(wildcard src/sql/$(EXTENSION)--*.sql))
DATA_built = $(SCRIPT)

REGRESS = $(patsubst sql/%.sql,%,$(sort $(wildcard sql/*.sql)))
ISOLATION = $(patsubst test/specs/%.spec,%,$(sort $(wildcard test/specs/*.spec)))
ISOLATION_OPTS = --inputdir=$(srcdir)/test --load-extension=$(EXTENSION)
TAP_TESTS = 1
PROVE_TESTS = test/t/*.pl

# The targets at the end must work before any PostgreSQL is installed.
PG_CONFIG ?= pg_config
PGXS := $(wildcard $(shell $(PG_CONFIG) --pgxs 2>/dev/null))
ifneq ($(PGXS),)
include $(PGXS)
else
all install installcheck clean:
	@echo '$(PG_CONFIG) knows no PostgreSQL with development files:' >&2
	@echo 'install postgresql-server-dev-NN, or say make PG_CONFIG=...' >&2
	@false
endif

$(OBJS): $(wildcard src/*.h)

$(SCRIPT): src/sql/$(EXTENSION).sql
	cp $< $@

# Everything below builds in a scratch folder and uses servers of its own.
# PARTS= chooses among the parts of the suite, SECONDS= how long chaos lasts.
.PHONY: test chaos chaos-fifo demo indent check-indent
test:
	@test/run $(PARTS)

chaos: SECONDS ?= 300
chaos:
	@CHAOS_SECONDS=$(SECONDS) PART_TIMEOUT=$$(($(SECONDS) + 600)) test/run chaos

# FIFO groups: a million messages, unless ROWS= says otherwise, to the last one.
chaos-fifo: ROWS ?= 1000000
chaos-fifo:
	@INBOX_ROWS=$(ROWS) INBOX_CLIENTS=32 INBOX_CRASHES=5 PART_TIMEOUT=$$(($(ROWS) / 100 + 900)) \
		TAP_FILES=test/t/080_fifo.pl test/run tap

demo:
	@demo/run

indent check-indent:
	@test/indent $(if $(filter check-indent,$@),--check)

# Figures, never a verdict.  BENCH=full takes two hours, CASES= chooses.
.PHONY: bench bench-publish profile
bench:
	@BENCH='$(BENCH)' CASES='$(CASES)' test/bench/run

bench-publish:
	cp test/bench/results/bench.md test/bench/results/bench.svg docs/

profile:
	@test/bench/profile
