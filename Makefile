# tableward: keeps tables in agreement. `make help` lists what there is.
# Everything that is built goes below build/, one folder a variant.

# make's own default is cc. A CC of the environment or command line is used.
ifeq ($(origin CC),default)
CC := gcc
endif
SANITIZER ?=
DEBUG ?=
COVERAGE ?=
V ?=
Q := $(if $(V),,@)
PREFIX ?= /usr/local
DESTDIR ?=
SYSCONFDIR ?= /etc
UNITDIR ?= $(PREFIX)/lib/systemd/system

VERSION := $(shell cat worker/VERSION)
PACKAGES := libcurl openssl libxml-2.0 yaml-0.1 sqlite3 libmicrohttpd

comma := ,
# The plain gcc build is build/tableward; every other one has its own folder.
VARIANT := $(if $(filter-out gcc cc,$(notdir $(CC))),-$(notdir $(CC)))$(if \
    $(SANITIZER),-$(subst $(comma),-,$(SANITIZER)))$(if $(DEBUG),-debug)$(if $(COVERAGE),-coverage)
OUT := build$(if $(VARIANT),/variant$(VARIANT))
OBJ := $(OUT)/obj

WARNINGS := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes \
    -Wmissing-prototypes -Wold-style-definition -Wpointer-arith -Wcast-qual \
    -Wwrite-strings -Wformat=2 -Wvla -Wundef -Wimplicit-fallthrough \
    -Wdouble-promotion -Wconversion -Wno-sign-conversion
CFLAGS ?= -O2 -g
HARDEN := -fstack-protector-strong -fPIE \
    $(if $(SANITIZER)$(DEBUG),,-D_FORTIFY_SOURCE=2)
# clang's own counters, of source and not of what an optimiser left of it; in
# the file whenever a program ends, also when it is killed. NDEBUG: an assert
# is about our own mistakes, no input reaches its other side.
COVER := -fprofile-instr-generate -fcoverage-mapping -fprofile-update=atomic \
    -mllvm -runtime-counter-relocation -DNDEBUG -Wno-unused
ALL_CFLAGS = -std=c17 -D_GNU_SOURCE -I. $(WARNINGS) $(HARDEN) $(CFLAGS) \
    -pthread $(if $(SANITIZER),-fsanitize=$(SANITIZER) \
    -fno-omit-frame-pointer -fno-sanitize-recover=all) \
    $(shell pkg-config --cflags $(PACKAGES) 2>/dev/null) \
    -DTABLEWARD_VERSION='"$(VERSION)"' \
    $(if $(COVERAGE),$(COVER))
ALL_LDFLAGS = -pie -Wl,-z,relro,-z,now $(LDFLAGS) -pthread \
    $(if $(SANITIZER),-fsanitize=$(SANITIZER)) \
    $(if $(COVERAGE),-fprofile-instr-generate)
LIBS = $(shell pkg-config --libs $(PACKAGES)) -lm

MODULES := worker/base config worker/store worker/store/azure \
    worker/store/embedded jobs/engine jobs jobs/cascade jobs/copy \
    jobs/delete jobs/move jobs/upgrade worker/run worker/transfer \
    worker/monitor worker/cli
SOURCES := $(sort $(wildcard $(addsuffix /*.c,$(MODULES))))
OBJECTS := $(SOURCES:%.c=$(OBJ)/%.o)
LIBRARY := $(OUT)/libtableward.a
PROGRAM := $(OUT)/tableward

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:

all: $(PROGRAM)   ## builds build/tableward

deps:   ## installs what building needs, where it is missing
	@CC='$(CC)' tests/deps build

# Installs first, and asks pkg-config only then.
test:   ## unit, conformance and end-to-end tests; installs what they need
	@CC='$(CC)' tests/deps build test
	@$(MAKE) --no-print-directory all unit-build azsim-build hostile-build
	@AZSIM=$(OUT)/azsim tests/with-azurite $(MAKE) --no-print-directory unit
	@$(OUT)/hostile $(PROGRAM)
	@AZSIM=$(OUT)/azsim tests/azsim/run
	@TABLEWARD=$(PROGRAM) tests/with-azurite tests/readme
	@tests/cli.sh $(PROGRAM)
	@tests/files.sh $(PROGRAM)
	@TABLEWARD=$(PROGRAM) tests/run-e2e $(E2E)

check: test   ## the same as test

prove:   ## long proofs: a crash at every request, many kills
	@CC='$(CC)' tests/deps build test
	@$(MAKE) --no-print-directory all azsim-build
	@TABLEWARD=$(PROGRAM) tests/run-e2e --long $(E2E)
	$(if $(E2E),,@$(MAKE) --no-print-directory fuzz SECONDS=600)
	$(if $(E2E),,@$(MAKE) --no-print-directory faults)
	$(if $(E2E),,@$(MAKE) --no-print-directory crash-sweep)
	$(if $(E2E),,@$(MAKE) --no-print-directory zombies)
	$(if $(E2E),,@$(MAKE) --no-print-directory throughput)
	$(if $(E2E),,@$(MAKE) --no-print-directory simulate SEEDS=100000)

demo:   ## channels deleted, a worker killed half way; installs what it needs
	@CC='$(CC)' tests/deps build
	@$(MAKE) --no-print-directory -s all
	@TABLEWARD=$(PROGRAM) tests/demo/run

lint:   ## layout, analysers, includes, shell
	@CC='$(CC)' tests/deps build lint
	@tests/lint

$(PROGRAM): $(OBJ)/worker/main.o $(LIBRARY)
	@echo "  $(notdir $(CC)) $@"
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $< $(LIBRARY) $(LIBS)

# Made anew each time, so that what a removed source left behind is gone.
$(LIBRARY): $(OBJECTS)
	@rm -f $@
	@$(AR) qcs $@ $^

$(OBJ)/%.o: %.c
	@mkdir -p $(@D)
	@echo "  $(notdir $(CC)) $<"
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(OBJ)/worker/cli/command_version.o $(OBJ)/worker/monitor/metrics.o: \
    worker/VERSION
$(OBJ)/worker/cli/command_init.o: config/tableward.yaml
$(OBJ)/worker/monitor/page.o: $(wildcard worker/monitor/dashboard.*)
$(OBJ)/worker/monitor/api.o: worker/VERSION

# The unit as it is in the tree names /usr/local and /etc; an installed one
# names PREFIX and SYSCONFDIR. A configuration that is there already stays.
install: $(PROGRAM)   ## installs program, unit, configuration, monitoring
	install -D -m 755 $(PROGRAM) $(DESTDIR)$(PREFIX)/bin/tableward
	install -d -m 755 $(DESTDIR)$(UNITDIR) $(DESTDIR)$(SYSCONFDIR)/tableward
	sed -e 's|/usr/local/bin/|$(PREFIX)/bin/|' \
	    -e 's|/etc/tableward/|$(SYSCONFDIR)/tableward/|' \
	    systemd/tableward.service >$(OUT)/tableward.service
	install -m 644 $(OUT)/tableward.service $(DESTDIR)$(UNITDIR)/
	test -e $(DESTDIR)$(SYSCONFDIR)/tableward/tableward.yaml || \
	    install -m 644 config/tableward.yaml \
	    $(DESTDIR)$(SYSCONFDIR)/tableward/
	install -d -m 755 $(DESTDIR)$(PREFIX)/share/tableward
	install -m 644 systemd/MONITORING.md systemd/alerts.yaml \
	    systemd/grafana-dashboard.json $(DESTDIR)$(PREFIX)/share/tableward/

format:   ## lays out the C sources as .clang-format says
	@clang-format -i $$(git ls-files '*.c' '*.h')

clean:   ## removes build/
	rm -rf build

help:   ## this list
	@sed -n 's/^\([a-z0-9-]*\):[^#]*##  *\(.*\)/\1|\2/p' $(MAKEFILE_LIST) | \
	    awk -F'|' '{ printf "  make %-12s %s\n", $$1, $$2 }'

# The tests' programs, proofs and benchmarks.
include tests/tests.mk

-include $(shell find $(OBJ) -name '*.d' 2>/dev/null)

.PHONY: all deps test check prove demo lint install format clean help
