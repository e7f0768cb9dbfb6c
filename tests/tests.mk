# The tests' programs, proofs and benchmarks; the Makefile includes this file.
# tests/README.md says which of them shows what.

# A double, a fixture or a script often ignores some of its parameters.
$(OBJ)/tests/%.o: ALL_CFLAGS += -Wno-unused-parameter

# ---- unit tests ----

UNIT_SOURCES := $(sort $(wildcard tests/unit/test_*.c))
UNIT_TESTS := $(UNIT_SOURCES:tests/unit/%.c=$(OUT)/tests/%)
SUPPORT_SOURCES := $(sort $(wildcard tests/support/*.c))
SUPPORT_OBJECTS := $(SUPPORT_SOURCES:%.c=$(OBJ)/%.o)

$(OUT)/tests/%: $(OBJ)/tests/unit/%.o $(SUPPORT_OBJECTS) $(LIBRARY)
	@mkdir -p $(@D)
	@echo "  $(notdir $(CC)) $@"
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $< $(MORE_OBJECTS) $(SUPPORT_OBJECTS) \
	    $(LIBRARY) $(LIBS) -lcmocka

unit-build: $(UNIT_TESTS) $(SIMULATE)

# One program for each processor under a sanitizer, or run-unit's own number.
UNIT_LIMITS = UNIT_LIMIT_S=$(if $(SANITIZER),1200,300) \
    $(if $(SANITIZER),UNITS_AT_ONCE=$${UNITS_AT_ONCE:-$$(nproc)})

WANTED_TESTS := $(if $(TESTS),$(addprefix $(OUT)/tests/test_,$(TESTS)),\
    $(UNIT_TESTS))
unit: $(WANTED_TESTS)   ## unit tests alone (TESTS="a b": only those)
	@$(UNIT_LIMITS) tests/run-unit $^

# ---- the parts of `make test` that come before the end-to-end tests ----

# They share nothing but the programs, and wait more than they compute: several
# run at a time, the longest first, and the output of each is printed when it has
# ended. Under a sanitizer they compute more than they wait.
TEST_PARTS := $(addprefix test-,unit cli hostile azsim readme files)
TEST_PARTS_AT_ONCE := $(if $(SANITIZER),-j1,-j3 --output-sync=target)

test-unit: $(WANTED_TESTS)
	@AZSIM=$(OUT)/azsim $(UNIT_LIMITS) tests/with-azurite tests/run-unit $^

test-cli: $(PROGRAM)
	@tests/in-folder tests/cli.sh $(PROGRAM)

test-hostile: $(PROGRAM) $(OUT)/hostile
	@tests/in-folder $(OUT)/hostile $(PROGRAM)

test-azsim: $(OUT)/azsim
	@AZSIM=$(OUT)/azsim tests/azsim/run

test-readme: $(PROGRAM)
	@TABLEWARD=$(PROGRAM) tests/with-azurite tests/readme

test-files: $(PROGRAM)
	@tests/in-folder tests/files.sh $(PROGRAM)

.PHONY: $(TEST_PARTS)

# ---- azsim: Azure's services for tests ----

# Azure's services for tests, and the proxy that damages connections to them.
AZSIM_PROXY_OBJECTS := $(addprefix $(OBJ)/tests/,azsim/proxy.o azsim/frame.o \
    support/loopback.o)
AZSIM_OBJECTS := $(filter-out $(AZSIM_PROXY_OBJECTS),$(patsubst \
    %.c,$(OBJ)/%.o,$(sort $(wildcard tests/azsim/*.c))))
BENT_WORLD := $(addprefix $(OBJ)/tests/support/,bent_platform.o real_threads.o)

$(OUT)/azsim: $(AZSIM_OBJECTS) $(BENT_WORLD) $(LIBRARY)
	@echo "  $(notdir $(CC)) $@"
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

$(OUT)/azsim-proxy: $(AZSIM_PROXY_OBJECTS) $(LIBRARY)
	@echo "  $(notdir $(CC)) $@"
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

azsim:   ## the official SDKs against our stand-in for Azure's services
	@CC='$(CC)' tests/deps build test
	@$(MAKE) --no-print-directory azsim-build
	@AZSIM=$(OUT)/azsim tests/azsim/run

# ---- end to end ----

e2e:   ## end-to-end tests alone (E2E="words": those suites)
	@CC='$(CC)' tests/deps build test
	@$(MAKE) --no-print-directory all azsim-build
	@TABLEWARD=$(PROGRAM) tests/run-e2e $(E2E)

# ---- hostile input ----

# What comes from outside, at its worst (HOSTILE="words": those cases).
HOSTILE_OBJECTS := $(patsubst %.c,$(OBJ)/%.o,$(sort $(wildcard \
    tests/hostile/*.c))) $(addprefix $(OBJ)/tests/support/,direct.o folder.o \
    loopback.o)
$(OUT)/hostile: $(HOSTILE_OBJECTS) $(LIBRARY)
	@echo "  $(notdir $(CC)) $@"
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

.PHONY: hostile hostile-build
hostile-build: $(OUT)/hostile
hostile:   ## hostile answers, files and ledgers: each ends, in 5 s and 64 MiB
	@CC='$(CC)' tests/deps build
	@$(MAKE) --no-print-directory all hostile-build
	@tests/in-folder $(OUT)/hostile $(PROGRAM) $(HOSTILE)

# ---- workers that are stopped past their lease ----

# The program, and how it looks at its deadline told to a file.
ZOMBIE := $(OUT)/zombies/tableward
$(ZOMBIE): $(OBJ)/worker/main.o $(OBJ)/tests/zombies/observer.o \
    $(BENT_WORLD) $(LIBRARY)
	@mkdir -p $(@D)
	@echo "  $(notdir $(CC)) $@"
	$(Q)$(CC) $(ALL_LDFLAGS) -Wl,--wrap=deadline_is_open \
	    -Wl,--wrap=text_random_uuid -Wl,--wrap=http_send -o $@ $^ $(LIBS)

.PHONY: azsim azsim-build zombies zombies-build
zombies-build: $(ZOMBIE) azsim-build
azsim-build: $(OUT)/azsim $(OUT)/azsim-proxy

STALLS ?= 1000
zombies:   ## workers stopped past their leases and woken (STALLS=n)
	@CC='$(CC)' tests/deps build test
	@$(MAKE) --no-print-directory all zombies-build
	@tests/zombies/run $(OUT) $(STALLS)

# ---- failing allocations and file I/O ----

# Programs of tests/faults, each with all that is beside it but the others.
FAULTS := $(addprefix $(OUT)/faults/,allocations io promises)
FAULTS_SHARED := $(patsubst %.c,$(OBJ)/%.o,$(filter-out \
    $(FAULTS:$(OUT)/%=tests/%.c),$(sort $(wildcard tests/faults/*.c))))

# Unit and conformance tests whose allocations fail in turn as well: those that
# look at what becomes of a child of their own are not among them.
FAULTS_UNITS := archive azure_account azure_batch azure_odata azure_queue_xml \
    azure_sign azure_tls buf cascade_rules conformance control crypto \
    entity filter lease ledger load message open poison settings setup \
    store_contract template

# SHARE=k: every k-th, others each time.
.PHONY: faults faults-build
faults-build: $(FAULTS) $(FAULTS_UNITS:%=$(OUT)/tests/test_%)
faults:   ## allocations and file I/O fail, each in turn (SHARE=k: every k-th)
	@CC='$(CC)' tests/deps build test
	@$(MAKE) --no-print-directory faults-build
	@tests/in-folder -m $(OUT)/faults/allocations $(or $(SHARE),1)
	@tests/in-folder -m $(OUT)/faults/allocations $(or $(SHARE),1) \
	    $(FAULTS_UNITS:%=$(OUT)/tests/test_%)
	@tests/in-folder -m $(OUT)/faults/promises $$(($(or $(SHARE),1) / 5 + 1))
	@tests/in-folder -m $(OUT)/faults/io $$(($(or $(SHARE),1) / 2 + 1))

$(OUT)/faults/%: $(OBJ)/tests/faults/%.o $(FAULTS_SHARED) $(SUPPORT_OBJECTS) \
    $(LIBRARY)
	@mkdir -p $(@D)
	@echo "  $(notdir $(CC)) $@"
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $< $(FAULTS_SHARED) $(SUPPORT_OBJECTS) \
	    $(LIBRARY) $(LIBS) -lcmocka

# ---- a crash at every request ----

SWEEP_OBJECTS := $(patsubst %.c,$(OBJ)/%.o,$(sort $(wildcard tests/sweep/*.c))) \
    $(addprefix $(OBJ)/tests/support/,direct.o folder.o interpose.o \
    program.o upgrade_model.o virtual_platform.o)
$(OUT)/crash-sweep: $(SWEEP_OBJECTS) $(LIBRARY)
	@echo "  $(notdir $(CC)) $@"
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

# SHARE=k: every k-th case, others each time. CASE="nested 17 after-commit":
# that one, with its log.
crash-sweep:   ## SIGKILL at every request, start again, compare (SHARE=k SEED=n CASE="...")
	@CC='$(CC)' tests/deps build
	@$(MAKE) --no-print-directory -s $(OUT)/crash-sweep
	@tests/in-folder -m $(OUT)/crash-sweep $(if $(SHARE),--share $(SHARE)) \
	    $(if $(SEED),--seed $(SEED)) $(CASE)

# ---- the simulation ----

SIMULATE_SOURCES := $(sort $(wildcard tests/simulate/*.c))
SIMULATE := $(OUT)/simulate

# Workers, front ends and faults by seed. SEEDS=N: so many, from FROM=S (a
# fresh one otherwise); SEED=S: that one twice, with a trace where it fails.
SEEDS ?= 500
$(SIMULATE): $(SIMULATE_SOURCES:%.c=$(OBJ)/%.o) $(LIBRARY) $(addprefix \
    $(OBJ)/tests/support/,faulty.o folder.o interpose.o \
    program.o releases.o upgrade_model.o virtual_platform.o)
	@echo "  $(notdir $(CC)) $@"
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) $(LIBRARY) $(LIBS)

simulate:   ## worlds of workers and faults (SEEDS=N, or SEED=S; KIND=cascade)
	@CC='$(CC)' tests/deps build
	@$(MAKE) --no-print-directory -s $(SIMULATE)
	@tests/in-folder -m $(SIMULATE) $(if $(KIND),--kind $(KIND)) \
	    $(if $(SEED),--seed $(SEED),--seeds $(SEEDS)) \
	    $(if $(FROM),--from $(FROM)) $(if $(VERBOSE),--verbose)
	@$(if $(SEED),,$(SIMULATE) --measure)

# ---- fuzzing ----

# One function a target (tests/fuzz/fuzz.h): all of them in a unit test, each
# of them alone with libFuzzer. What they would send goes to a double of
# http_send(), and to end by _exit() is a finding.
FUZZ_TARGETS := $(sort $(patsubst tests/fuzz/target_%.c,%,$(wildcard \
    tests/fuzz/target_*.c)))
FUZZ_OBJECTS := $(patsubst %.c,$(OBJ)/%.o,$(sort $(wildcard tests/fuzz/*.c)))
FUZZ_FLAGS := -Wl,--wrap=http_send,--wrap=_exit
FUZZ_BUILD := CC=clang SANITIZER=fuzzer-no-link,address,undefined
SECONDS ?= 60
JOBS ?= 2

$(OUT)/tests/test_fuzz_corpora: MORE_OBJECTS := $(FUZZ_OBJECTS)
$(OUT)/tests/test_fuzz_corpora: LDFLAGS += $(FUZZ_FLAGS)
$(OUT)/tests/test_fuzz_corpora: $(FUZZ_OBJECTS)

# Of the unit tests' support, what targets use too.
FUZZ_SUPPORT := $(addprefix $(OBJ)/tests/support/,folder.o json_oracle.o)
$(OUT)/fuzz/%: $(FUZZ_OBJECTS) $(FUZZ_SUPPORT) $(LIBRARY)
	@mkdir -p $(@D)
	@echo "  $(notdir $(CC)) $@"
	$(Q)$(CC) $(ALL_LDFLAGS) -fsanitize=fuzzer $(FUZZ_FLAGS) \
	    -Wl,--defsym=LLVMFuzzerTestOneInput=target_$* -o $@ \
	    $(FUZZ_OBJECTS) $(FUZZ_SUPPORT) $(LIBRARY) $(LIBS)

fuzz:   ## libFuzzer, SECONDS=60 of CPU each, JOBS=2 (TARGETS="a b": only those)
	@tests/deps build fuzz
	@$(MAKE) --no-print-directory $(FUZZ_BUILD) fuzz-run

.PHONY: fuzz fuzz-run
fuzz-run: $(addprefix $(OUT)/fuzz/,$(or $(TARGETS),$(FUZZ_TARGETS)))
	@tests/in-folder -m tests/fuzz/run $(SECONDS) $(JOBS) $^

# ---- known mistakes, models, coverage, valgrind ----

bug-bank:   ## known mistakes, each caught (BUGS="a b": only those; SHARE=k SEED=n)
	@tests/deps build unit
	@SHARE=$(SHARE) SEED=$(SEED) tests/in-folder -m tests/bugs/run $(BUGS)

mutants:   ## small mechanical mistakes in lease, ledger and requests, each caught (SEED=1 COUNT=60 MATCH="due_ticks")
	@tests/deps build unit
	@node tests/bugs/mutate.js $(OUT)/mutants/bank $(or $(SEED),1) \
	    $(or $(COUNT),60) '$(MATCH)'
	@BANK=$(OUT)/mutants/bank SEEDS=500 tests/in-folder -m tests/bugs/run $(BUGS)

model:   ## checks the Promela models, whole and without each guard
	@tests/deps model
	@tests/model/run

coverage:   ## branches taken and error returns executed by the tests
	@CC=clang tests/deps build test coverage
	@$(MAKE) --no-print-directory CC=clang COVERAGE=1 CFLAGS='-O1 -g' \
	    coverage-run

coverage-run: $(UNIT_TESTS)
	@CC='$(CC)' tests/coverage/run $(OUT)

valgrind: $(PROGRAM)   ## a cascade on each store under valgrind
	@tests/deps build test valgrind
	@$(MAKE) --no-print-directory azsim-build
	@TABLEWARD=$(PROGRAM) tests/valgrind

# ---- benchmarks ----

$(OUT)/measure: $(OBJ)/tests/bench/measure.o
	$(CC) $(ALL_LDFLAGS) -o $@ $<

$(OUT)/pages: $(OBJ)/tests/bench/pages.o $(LIBRARY)
	@echo "  $(notdir $(CC)) $@"
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

# What bare libcurl takes for the same work.
$(OUT)/bare: $(OBJ)/tests/bench/bare.o $(LIBRARY)
	@echo "  $(notdir $(CC)) $@"
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

.PHONY: bench-pages
bench-pages:   ## how fast pages of entities are read, without a network
	@CC='$(CC)' tests/deps build
	@$(MAKE) --no-print-directory -s $(OUT)/pages
	@for shape in small keys text escapes script wide; do \
	    $(OUT)/pages $$shape || exit; done

# Azurite, azsim and the SDKs take part where node is there already.
bench:   ## cost of the kinds of job, beside the SDKs and libcurl (QUICK=1)
	@CC='$(CC)' tests/deps build $$(! command -v node >/dev/null || echo test)
	@$(MAKE) --no-print-directory -s all $(OUT)/measure $(OUT)/azsim $(OUT)/bare
	@! command -v node >/dev/null || TABLEWARD=$(PROGRAM) \
	    MEASURE=$(OUT)/measure BARE=$(OUT)/bare AZSIM=$(OUT)/azsim \
	    E2E_MAIN=../bench/compare.js tests/run-e2e $(CASES)
	@$(if $(QUICK),,AZSIM=$(OUT)/azsim tests/bench/run $(PROGRAM) $(OUT)/measure)

# LIMITS="300 2000": these alone. With all of them some 16 minutes.
throughput:   ## how near a worker comes to a service's limit (LIMITS="...")
	@CC='$(CC)' tests/deps build test
	@$(MAKE) --no-print-directory -s all azsim-build
	@TABLEWARD=$(abspath $(PROGRAM)) \
	    E2E_MODULES=$(CURDIR)/build/e2e/node_modules \
	    tests/in-folder node tests/bench/throughput.js $(LIMITS)

.PHONY: unit unit-build e2e crash-sweep simulate bug-bank mutants model \
    coverage coverage-run valgrind bench throughput
