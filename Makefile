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

# The manual is made by a program that runs here: not of every variant.
all: $(PROGRAM) $(if $(VARIANT),,manual)   ## builds build/tableward and its manual

deps:   ## installs what building needs, where it is missing
	@CC='$(CC)' tests/deps build

# Installs first, and asks pkg-config only then.
test:   ## unit, conformance and end-to-end tests; installs what they need
	@CC='$(CC)' tests/deps build test
	@$(MAKE) --no-print-directory all unit-build azsim-build hostile-build
	@$(MAKE) --no-print-directory $(TEST_PARTS_AT_ONCE) $(TEST_PARTS)
	@$(if $(SANITIZER),E2E_AT_ONCE=3) TABLEWARD=$(PROGRAM) tests/run-e2e $(E2E)

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
	$(if $(E2E),,@$(MAKE) --no-print-directory package-test)
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

# ---- manual pages and completions, from the tables of the program ----
MANUAL := $(OUT)/manual
PAGES := $(addprefix $(MANUAL)/,tableward.1 tableward.yaml.5)
COMPLETIONS := $(addprefix $(MANUAL)/,tableward.bash _tableward tableward.fish)
MANUAL_OBJECTS := $(patsubst %.c,$(OBJ)/%.o,$(sort $(wildcard worker/manual/*.c)))
# The day of the page: of the package, of the commit, or of the sources.
MANUAL_DATE = $(shell date -u +%F -d "@$$(echo $${SOURCE_DATE_EPOCH:-$$( \
    git log -1 --format=%ct 2>/dev/null || stat -c %Y worker/VERSION)})")

manual: $(PAGES) $(COMPLETIONS)   ## man pages and completions for shells

$(MANUAL)/print: $(MANUAL_OBJECTS) $(LIBRARY)
	@mkdir -p $(@D)
	@echo "  $(notdir $(CC)) $@"
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

$(PAGES): $(MANUAL)/print
	$(Q)$< $(@F) $(MANUAL_DATE) >$@

$(MANUAL)/tableward.bash: $(MANUAL)/print worker/manual/ask.sh worker/manual/complete.bash
	$(Q){ echo '# Completions of tableward for bash.'; $< sh; \
	    cat worker/manual/ask.sh worker/manual/complete.bash; } >$@

$(MANUAL)/_tableward: $(MANUAL)/print worker/manual/ask.sh worker/manual/complete.zsh
	$(Q){ echo '#compdef tableward'; $< sh; \
	    cat worker/manual/ask.sh worker/manual/complete.zsh; } >$@

$(MANUAL)/tableward.fish: $(MANUAL)/print worker/manual/ask.sh worker/manual/complete.fish
	$(Q){ echo '# Completions of tableward for fish.'; $< fish; \
	    echo; printf "set -g _tableward_functions '"; \
	    sed "s/[\\\\']/\\\\&/g" worker/manual/ask.sh; echo "'"; \
	    cat worker/manual/complete.fish; } >$@

# ---- installation ----
BINDIR := $(PREFIX)/bin
SHAREDIR := $(PREFIX)/share
DOCDIR ?= $(SHAREDIR)/doc/tableward
ZSHDIR ?= $(SHAREDIR)/zsh/site-functions
CONFIG := $(SYSCONFDIR)/tableward/tableward.yaml
UNITS := $(notdir $(sort $(wildcard systemd/*.service systemd/*.timer)))
# The documentation keeps the folders of the tree, so that links in it lead
# somewhere.
DOCS := README.md config/tableward.yaml systemd/no-network.conf \
    $(sort $(filter-out jobs/KINDS.md,$(wildcard jobs/*.md)) \
    $(wildcard config/examples/*.yaml systemd/*.md systemd/*.json \
    systemd/*.yaml))
# Where each file goes that an installation has and its owner does not change.
INSTALLED := $(BINDIR)/tableward \
    $(UNITS:%=$(UNITDIR)/%) \
    $(SHAREDIR)/man/man1/tableward.1 \
    $(SHAREDIR)/man/man5/tableward.yaml.5 \
    $(SHAREDIR)/bash-completion/completions/tableward \
    $(ZSHDIR)/_tableward \
    $(SHAREDIR)/fish/vendor_completions.d/tableward.fish \
    $(DOCS:%=$(DOCDIR)/%)

# The units as they are in the tree name /usr/local and /etc; installed ones
# name PREFIX and SYSCONFDIR. A configuration that is there already stays.
install: $(PROGRAM) $(PAGES) $(COMPLETIONS)   ## installs program, units, manual, a configuration
	install -D -m 755 $(PROGRAM) $(DESTDIR)$(BINDIR)/tableward
	install -d -m 755 $(DESTDIR)$(UNITDIR) $(OUT)/units
	for unit in $(UNITS); do \
	    sed -e 's|/usr/local/bin/|$(BINDIR)/|g' \
	        -e 's|/etc/tableward/|$(SYSCONFDIR)/tableward/|g' \
	        systemd/$$unit >$(OUT)/units/$$unit && \
	    install -m 644 $(OUT)/units/$$unit $(DESTDIR)$(UNITDIR)/ || exit; done
	install -D -m 644 -t $(DESTDIR)$(SHAREDIR)/man/man1 $(MANUAL)/tableward.1
	install -D -m 644 -t $(DESTDIR)$(SHAREDIR)/man/man5 \
	    $(MANUAL)/tableward.yaml.5
	install -D -m 644 $(MANUAL)/tableward.bash \
	    $(DESTDIR)$(SHAREDIR)/bash-completion/completions/tableward
	install -D -m 644 -t $(DESTDIR)$(ZSHDIR) $(MANUAL)/_tableward
	install -D -m 644 -t $(DESTDIR)$(SHAREDIR)/fish/vendor_completions.d \
	    $(MANUAL)/tableward.fish
	for doc in $(DOCS); do \
	    install -D -m 644 $$doc $(DESTDIR)$(DOCDIR)/$$doc || exit; done
	test -e $(DESTDIR)$(CONFIG) || \
	    install -D -m 644 config/installed.yaml $(DESTDIR)$(CONFIG)

# With the variables of the installation. What its owner has written stays: a
# changed configuration, credentials, the state directory. Stop and disable the
# units before.
uninstall:   ## removes what `make install` has installed
	rm -f $(INSTALLED:%=$(DESTDIR)%)
	! cmp -s config/installed.yaml $(DESTDIR)$(CONFIG) || \
	    rm $(DESTDIR)$(CONFIG)
	find $(DESTDIR)$(DOCDIR) $(dir $(DESTDIR)$(CONFIG)) -depth -type d -empty \
	    -delete 2>/dev/null || :

# ---- Debian package ----
# Between releases one that is older than the next: commits so far, and which.
DEB_VERSION ?= $(VERSION)$(shell git rev-parse --is-inside-work-tree \
    >/dev/null 2>&1 && echo "~git$$(git rev-list --count HEAD).$$( \
    git rev-parse --short HEAD)")
DEB_TREE := build/deb/tableward

deb:   ## a Debian package, in build/ (DEB_VERSION=...)
	@tests/deps build package
	@rm -rf build/deb build/tableward_*.deb
	@mkdir -p $(DEB_TREE)/tests
	@cp -R Makefile README.md config jobs systemd worker $(DEB_TREE)/
	@cp tests/tests.mk $(DEB_TREE)/tests/
	@mv $(DEB_TREE)/systemd/debian $(DEB_TREE)/debian
	@sed -i '1s/([^)]*)/($(DEB_VERSION))/' $(DEB_TREE)/debian/changelog
	@(cd $(DEB_TREE) && env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS \
	    dpkg-buildpackage -b -us -uc -jauto) >build/deb/log 2>&1 || \
	    { tail -n 50 build/deb/log; exit 1; }
	@cp build/deb/tableward_*.deb build/
	@ls build/tableward_*.deb

package-test:   ## the package in a fresh Debian: install, upgrade, kill, purge
	@tests/deps build package package-test
	@tests/package

lint-quick:   ## lint without the analysers and the monitoring rules
	@CC='$(CC)' tests/deps build lint
	@tests/lint quick

format:   ## lays out the C sources as .clang-format says, new files too
	@clang-format -i $$(git ls-files -co --exclude-standard '*.c' '*.h')

clean:   ## removes build/
	rm -rf build

help:   ## this list
	@sed -n 's/^\([a-z0-9-]*\):[^#]*##  *\(.*\)/\1|\2/p' $(MAKEFILE_LIST) | \
	    awk -F'|' '{ printf "  make %-12s %s\n", $$1, $$2 }'

# The tests' programs, proofs and benchmarks.
include tests/tests.mk

-include $(shell find $(OBJ) -name '*.d' 2>/dev/null)

.PHONY: all deps test check prove demo lint lint-quick install uninstall manual deb \
    package-test format clean help
