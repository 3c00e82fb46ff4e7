# Every command that a developer needs, which are also those that CI runs. `make` without arguments lists them.
PYTHON ?= python3
VENV ?= .venv
BOOTSTRAP ?=
LISTEN ?= 127.0.0.1:9092
DATA ?= build/broker
SECONDS ?= 60
MUTANTS ?= 150
SEED ?= 1
ROOM ?=
SINCE ?=
KIND ?=
OUT ?=
SOAK ?= cancels
SEEDS ?= 0:1000
PLANT ?=
PYTEST_ARGUMENTS ?= -n 3 -q
CLIENTS_ARGUMENTS ?=
BROKER_ARGUMENTS ?=

BIN := $(VENV)/bin
RUN := $(BIN)/python -m
EXTENSION_SOURCES := $(shell find sdk -name '*.pyx' -o -name '*.pxd' -o -name '*.pxi')
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
# A test run starts hundreds of Python processes, and each worker loads every test, so bytecode is cached as by default.
unexport PYTHONDONTWRITEBYTECODE

# Test runs share two cores and one tree, so they run one after another.
ifndef TOGETHER
.NOTPARALLEL:
endif
.DEFAULT_GOAL := help

title = @printf '\n== %s\n' '$(1)'

.PHONY: help
help: ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | awk -F'\t' '{ printf "make %-16s %s\n", $$1, $$2 }'

# --- set-up ------------------------------------------------------------------------------------------------------------

.PHONY: venv
venv: $(VENV)/.dev ## create the virtual environment with everything that development needs

# There is one stamp per kind of environment; if a dependency or an extension source changes, the installation is updated.
$(VENV)/.%: pyproject.toml setup.py $(EXTENSION_SOURCES)
	@$(PYTHON) tools/environment.py $* --venv $(VENV)
	@touch $@ $(VENV)/.core

# --- use ---------------------------------------------------------------------------------------------------------------

.PHONY: demo demo-spark broker conformance
demo: $(VENV)/.core ## produce, consume, restart and inspect, on the embedded broker or on BOOTSTRAP=host:port
	@$(BIN)/kafkawire demo $(if $(BOOTSTRAP),--bootstrap $(BOOTSTRAP))

demo-spark: $(VENV)/.dev ## audit a day of a small shop, written by the embedded broker, with Spark; show the report in a browser, or write it to OUT=folder
	@$(BIN)/kafkawire pipeline demo $(if $(OUT),--out $(OUT))

broker: $(VENV)/.core ## run the reference broker on LISTEN=host:port, with its files in DATA=folder
	@$(BIN)/kafkawire broker --listen $(LISTEN) --data $(DATA)

conformance: $(VENV)/.core ## check every engine against Apache Kafka's vectors, and with BOOTSTRAP=host:port also that broker
	@$(BIN)/kafkawire conformance codec
	@$(if $(BOOTSTRAP),$(BIN)/kafkawire conformance run --bootstrap $(BOOTSTRAP))

# --- checks ------------------------------------------------------------------------------------------------------------

# The checks that `make test` leaves out, which it lists at the end.
define LEFT
only `make test-all` runs: pyright, thorough tests, three in four random examples, all tests with the Python engine, the other tests of Spark, event loops (test-loops),
the installation on a machine without a compiler (test-pure),
other Python versions (test-pythons), sanitizers (test-asan), fuzz, Apache Kafka and other people's programs (test-kafka),
200 kills (test-kills), wheels, and faults in the changes (mutants)
endef
export LEFT

.PHONY: test test-all checks fmt lint types mypy pyright layers tidy generated test-native test-python test-construct test-spark test-beside-spark test-small
test: test-beside-spark test-native ## run what every change needs: the checks, and the tests for each engine; five to eight minutes on two cores
	$(call title,everything passed)
	@echo "$$LEFT"

EVERYTHING := checks test-native test-python test-construct test-spark test-pure test-loops test-pythons test-asan fuzz wheels test-kafka
test-all: $(VENV)/.dev ## run everything, and plant faults in the changes SINCE=origin/main; takes hours; needed before a change is done, and before a release
	@$(MAKE) --no-print-directory ALL=1 $(EVERYTHING) mutants SINCE=$(or $(SINCE),origin/main)
	$(call title,everything passed)

# The checks share nothing but the sources, so two run at a time; the output of each is printed in one piece.
checks: $(VENV)/.dev ## run lint, mypy, layers, tidy and generated, two at a time; with ALL=1 also pyright
	@$(MAKE) --no-print-directory -j 2 --output-sync=target TOGETHER=1 $(if $(ALL),pyright )mypy tidy lint layers generated

fmt: $(VENV)/.dev ## format the code, and fix what can be fixed automatically
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

lint: $(VENV)/.dev ## run ruff: rules and format
	$(call title,lint)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: mypy pyright ## run mypy in strict mode, and pyright

mypy: $(VENV)/.dev
	$(call title,types: mypy)
	@$(BIN)/mypy

pyright: $(VENV)/.dev
	$(call title,types: pyright)
	@if $(BIN)/pyright --version >/dev/null 2>&1; then $(BIN)/pyright; \
	else echo 'left out, since pyright cannot run on this machine (its Node.js does not start)'; fi

layers: $(VENV)/.dev ## check which modules may import which, and that there are no import cycles
	$(call title,layers)
	@$(BIN)/lint-imports --no-logo
	@$(RUN) tools.circles

tidy: $(VENV)/.dev ## check the house rules
	$(call title,tidy)
	@$(RUN) tools.tidy

generated: $(VENV)/.dev ## check that generated code and pages match the schemas, the declared options and the tables of states
	$(call title,generated code)
	@$(BIN)/kafkawire codegen check
	@$(RUN) tools.options --check
	@$(RUN) tools.states --check

# `make test` leaves out thorough tests (tests/thorough.py); `make test-all`, or ALL=1, includes them. Spark has a JVM and
# workers of its own, so its tests run once, and not in several pytest processes at a time.
SELECTED = -m "$(1)$(if $(ALL),, and not thorough)"
ifndef ALL
export KAFKAWIRE_TEST_EXAMPLES ?= few
endif
# tests/test_environment.py fails if the extension is missing although it could be built.
NATIVE := KAFKAWIRE_ENGINE=native $(BIN)/python -c 'import kafkawire.protocol' 2>/dev/null

test-native: $(VENV)/.dev
	$(call title,tests: native engine)
	@if $(NATIVE); then KAFKAWIRE_ENGINE=native $(RUN) pytest $(PYTEST_ARGUMENTS) $(call SELECTED,not spark); \
	else echo 'left out, since the extension has not been built'; fi

# In addition to the native engine, the Python engine is tested where it differs; without the native engine, with every
# test. With ALL=1, all tests run with both, except those that never reach a codec, that plan disk faults, or that name
# the engines that they use.
ENGINE_TESTS := tests/conformance tests/sdk/protocol tests/sdk/records tests/sdk/producer tests/sdk/consumer/reading \
  tests/sdk/test_end_to_end.py
ENGINE_FREE := --ignore=tests/codegen --ignore-glob=tests/test_*.py \
  --ignore-glob=tests/reference_broker/*_failures.py --ignore=tests/soak

test-python: $(VENV)/.dev
	$(call title,tests: python engine)
	@if $(NATIVE); then KAFKAWIRE_ENGINE=python $(RUN) pytest $(PYTEST_ARGUMENTS) \
	  $(call SELECTED,not spark and not names_engine) $(if $(ALL),$(ENGINE_FREE),$(ENGINE_TESTS)); \
	else KAFKAWIRE_ENGINE=python $(RUN) pytest $(PYTEST_ARGUMENTS) $(call SELECTED,not spark); fi

test-construct: $(VENV)/.dev
	$(call title,tests: construct engine (codec))
	@KAFKAWIRE_ENGINE=construct $(RUN) pytest $(PYTEST_ARGUMENTS) $(call SELECTED,not names_engine) tests/sdk/protocol

# With ALL=1, there are two sessions: in a single JVM, all threads and workers are too many for a small machine.
SPARK_AUDIT_TESTS := tests/sdk/spark/audit
test-spark: $(VENV)/.dev
	$(call title,tests: Spark)
ifdef ALL
	@$(RUN) pytest -q -m spark tests/sdk/spark tests/commands --ignore=$(SPARK_AUDIT_TESTS)
	@$(RUN) pytest -q -m spark $(SPARK_AUDIT_TESTS)
else
	@$(RUN) pytest -q -m "spark and smoke" tests/sdk/spark
endif

# The tests that may differ between Python versions: the whole core, except for planned disk faults, and the tests of the
# Python engine alone. The oldest and the newest version run all of them; the versions between are tested by their wheels,
# and by `make test-core PYTHON=python3.12 VENV=.venv-3.12`. The single module detects that an extension is missing.
CORE_TESTS := tests/conformance tests/reference_broker tests/sdk tests/test_environment.py tests/codegen \
  --ignore-glob=tests/reference_broker/*_failures.py

# Spark's JVM leaves most of a core idle: the checks, and the few tests of the other engines, run beside it. Without the
# extension the other engines have all tests, which run alone.
test-beside-spark: $(VENV)/.dev
	@$(MAKE) --no-print-directory -j 2 --output-sync=target TOGETHER=1 test-spark test-small
	@$(NATIVE) || $(MAKE) --no-print-directory test-python test-construct

test-small:
	@$(MAKE) --no-print-directory TOGETHER= lint tidy layers generated mypy
	@if $(NATIVE); then $(MAKE) --no-print-directory TOGETHER= test-python test-construct; fi

.PHONY: test-pythons test-core
test-pythons: ## run the core tests with the newest of the other Python versions on this machine
	@versions=$$($(PYTHON) tools/pythons.py); newest=$${versions##* }; \
	if [ -z "$$newest" ]; then echo 'left out, since this machine has no other supported Python'; \
	else $(MAKE) --no-print-directory test-core PYTHON="$$($(PYTHON) tools/pythons.py $$newest)" VENV=.venv-$$newest; fi

test-core: $(VENV)/.test
	$(call title,tests: core with $(VENV), native engine)
	@if $(NATIVE); then KAFKAWIRE_ENGINE=native $(RUN) pytest $(PYTEST_ARGUMENTS) $(call SELECTED,not spark) $(CORE_TESTS); \
	else echo 'left out, since the extension has not been built'; fi
	$(call title,tests: core with $(VENV), python engine)
	@KAFKAWIRE_ENGINE=python $(RUN) pytest $(PYTEST_ARGUMENTS) $(call SELECTED,not spark) $$($(NATIVE) && echo $(ENGINE_TESTS) || echo $(CORE_TESTS))

# The tests of code that runs on an application's event loop, with loops other than asyncio's, which all other runs use.
LOOP_TESTS := $(addprefix tests/sdk/,transport client groups routing producer consumer admin sync test_end_to_end.py test_event_loops.py \
  test_log_lines.py test_ended_loops.py) tests/test_starting.py tests/test_testing.py

.PHONY: test-loops test-loop
test-loops: $(VENV)/.dev ## run the clients' tests on uvloop, and with eager tasks on a Python version that has them
	@$(MAKE) --no-print-directory test-loop KAFKAWIRE_TEST_LOOP=uvloop
	@if $(BIN)/python -c 'from asyncio import eager_task_factory' 2>/dev/null; then \
	  $(MAKE) --no-print-directory test-loop KAFKAWIRE_TEST_LOOP=eager; \
	else versions=$$($(PYTHON) tools/pythons.py); newest=$${versions##* }; \
	  if [ -z "$$newest" ]; then echo 'left out, since this Python has no eager tasks, and this machine has no other supported Python'; \
	  else $(MAKE) --no-print-directory test-loop KAFKAWIRE_TEST_LOOP=eager \
	    PYTHON="$$($(PYTHON) tools/pythons.py $$newest)" VENV=.venv-$$newest; fi; \
	fi

test-loop: $(VENV)/.test
	$(call title,tests: clients on the event loops of $(KAFKAWIRE_TEST_LOOP))
	@KAFKAWIRE_TEST_LOOP=$(KAFKAWIRE_TEST_LOOP) $(RUN) pytest $(PYTEST_ARGUMENTS) $(call SELECTED,not spark) $(LOOP_TESTS)

# The tests of code that chooses an engine, and of whole clients. Those of the Python engine alone also run elsewhere, next
# to the extension.
PURE_TREE := build/pure
PURE_TESTS := tests/sdk/records/engines tests/sdk/producer/engines tests/sdk/consumer/reading/engines \
  tests/sdk/protocol/engines/test_python.py tests/sdk/protocol/engines/test_selection.py \
  $(addprefix tests/sdk/records/test_,columns.py crc.py extent.py index_columns.py last_batches.py latest.py lines.py rows.py survey.py walk.py) \
  tests/sdk/test_end_to_end.py tests/commands/test_main.py \
  $(addprefix tests/test_,imports.py environment.py protocol.py records.py testing.py)

.PHONY: test-pure test-without-extension
test-pure: ## test the installation on a machine without a compiler, in a copy of the tree, where it differs; takes a minute
	@$(PYTHON) tools/tree_copy.py $(PURE_TREE)
	@CC=no-such-compiler $(MAKE) --no-print-directory -C $(PURE_TREE) VENV=$(abspath .venv-pure) test-without-extension

test-without-extension: $(VENV)/.test
	$(call title,tests: without the extension)
	@if $(NATIVE); then echo 'an extension was found where none can be built'; exit 1; fi
	@env -u KAFKAWIRE_ENGINE $(RUN) pytest $(PYTEST_ARGUMENTS) $(call SELECTED,not spark) $(PURE_TESTS)
	$(call title,tests: all that test-core runs can be collected without the extras)
	@mkdir -p build; env -u KAFKAWIRE_ENGINE $(RUN) pytest -q --collect-only $(CORE_TESTS) >build/collected.log || { tail -20 build/collected.log; exit 1; }

.PHONY: test-kills test-kafka test-kafka-smoke test-asan fuzz mutants soak simulate
KILLS := tests/soak/two_hundred_kills.py
test-kills: $(VENV)/.dev ## send 200 SIGKILLs to the broker under load; about two minutes
	$(call title,tests: 200 kills)
	@$(RUN) pytest -q $(KILLS)

test-kafka: $(VENV)/.kafka ## run the tests against a real Apache Kafka, fetched with Maven, and test-kills
	$(call title,tests: against Apache Kafka)
	@KAFKAWIRE_TEST_KAFKA=1 $(RUN) pytest -q -n 2 --dist loadfile tests/kafka
	@$(RUN) pytest -q $(KILLS)

test-kafka-smoke: $(VENV)/.kafka ## run each kind of client and broker once, against a real Apache Kafka
	$(call title,tests: smoke tests against Apache Kafka)
	@KAFKAWIRE_TEST_KAFKA=1 $(RUN) pytest -q -n 2 --dist loadfile -m smoke tests/kafka

test-asan: $(VENV)/.dev ## run the tests of the extensions under AddressSanitizer and UBSan
	$(call title,tests: sanitizers)
	@tools/test_asan.sh $(BIN)/python -n 2

fuzz: $(VENV)/.dev ## feed damaged bytes to all code that reads bytes, for SECONDS=60
	$(call title,fuzz: $(SECONDS) s)
	@$(RUN) tools.fuzz --seconds $(SECONDS)

soak: $(VENV)/.dev ## run under load and faults for a long time: SOAK=cancels|rebalance|scale|leak|transactions|kills|hostile|load|logins|shares, SECONDS=600, SEED=1
	$(call title,soak: $(SOAK))
	@nice $(RUN) tools.soak $(SOAK) --seconds $(SECONDS) --seed $(SEED) $(if $(BOOTSTRAP),--bootstrap $(BOOTSTRAP))

simulate: $(VENV)/.dev ## run a cluster in virtual time with SEEDS=from:to, and optionally with a planted fault, PLANT=name
	$(call title,simulate: $(SEEDS))
	@nice $(RUN) tools.simulate --seeds $(SEEDS) --processes 2 $(if $(PLANT),--plant $(PLANT))

mutants: $(VENV)/.dev ## plant small faults that the tests must notice: MUTANTS=150 of them with SEED=1, of a KIND, in ROOM=name or path, or in the changes SINCE=revision
	$(call title,mutants)
	@nice $(RUN) tools.mutants --faults $(MUTANTS) --seed $(SEED) $(foreach room,$(ROOM),--room '$(room)') $(if $(SINCE),--since $(SINCE)) $(foreach kind,$(KIND),--kind $(kind))

# --- the rest ----------------------------------------------------------------------------------------------------------

.PHONY: docs wheels bench bench-languages bench-clients bench-broker bench-cluster bench-dump bench-spark bench-spark-sizes clean
docs: $(VENV)/.dev ## write the protocol reference as pages in build/reference/
	@$(BIN)/kafkawire codegen docs --out build/reference

wheels: $(VENV)/.release ## build and try the sdist, the pure wheel and a native wheel, in dist/; with ALL=1, a native wheel for each Python version
	$(call title,wheels)
	@$(RUN) tools.wheels --out dist $(if $(ALL),--every-python)

bench: $(VENV)/.bench ## compare codecs, record batches and imports with other libraries; the ratios go into docs/benchmarks.md
	@nice $(RUN) benchmarks --write docs/benchmarks.md

bench-languages: $(VENV)/.bench ## compare codecs with Go's and Java's (needs go, a JDK and Maven), for docs/benchmarks.md
	@nice $(RUN) benchmarks languages --write docs/benchmarks.md

bench-clients: $(VENV)/.bench ## compare clients against one broker, BOOTSTRAP=host:port, for docs/benchmarks.md
	@test -n '$(BOOTSTRAP)' || { echo 'usage: make bench-clients BOOTSTRAP=host:port'; exit 2; }
	@nice $(RUN) benchmarks.clients --bootstrap $(BOOTSTRAP) --write docs/benchmarks.md $(CLIENTS_ARGUMENTS)
	@nice $(RUN) benchmarks.latency --bootstrap $(BOOTSTRAP) --write docs/benchmarks.md

bench-broker: $(VENV)/.kafka ## compare the reference broker with Apache Kafka, fetched with Maven, for docs/benchmarks.md
	@nice $(RUN) benchmarks broker --write docs/benchmarks.md $(BROKER_ARGUMENTS)

bench-cluster: $(VENV)/.kafka ## compare three brokers with clusters of Apache Kafka 3.9 and 4.3, for docs/benchmarks.md
	@nice $(RUN) benchmarks cluster --write docs/benchmarks.md

bench-dump: $(VENV)/.kafka ## compare kafkawire dump with Kafka's DumpLogSegments on 1 GB, for docs/benchmarks.md
	@nice $(RUN) benchmarks dump --write docs/benchmarks.md

bench-spark: $(VENV)/.kafka ## compare the Spark data sources with Spark's connector and other clients' decoders, for docs/benchmarks.md
	@nice $(RUN) benchmarks spark --write docs/benchmarks.md

bench-spark-sizes: $(VENV)/.dev ## measure what Spark needs for each GB of segments, with 1, 4 and 16 GB, for docs/spark_sizing.md
	@nice $(RUN) benchmarks spark-sizes --write docs/spark_sizing.md

clean: ## remove everything that was built; sources and generated code are kept
	@rm -rf build dist src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis $(VENV) .venv-*
	@find sdk \( -name '*.so' -o -name '*.c' \) -delete
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
