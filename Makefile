# Every target that needs the project's packages depends on `install`, which does nothing when nothing changed.

VENV := .venv
BIN := $(VENV)/bin
EXTRAS := embedded,spark,console,dev,docs
STORE ?= .headwater/store
PORT ?= 4222
CONSOLE_PORT ?= 8280
ARGS ?=
NATS_CLI ?= nats
ROUNDS ?= 60
RUNS ?= 1000
ATTACKS ?= 100000
WORKERS ?= 10
OLDER_SERVERS ?= .headwater/older-servers
# A recipe that names $(MAKE) itself would run under `make -n`.
CHECK := $(MAKE) --no-print-directory check

# The stamp is named after what was asked for, so that a checkout that only touches times installs nothing.
WANTED := $(shell cat pyproject.toml constraints.txt | cksum | cut -d' ' -f1)
STAMP := $(VENV)/.installed-$(WANTED)
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)

# Hundreds of tests start Python. Without compiled modules each start takes twice as long.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install check format test test-demo test-nats-cli test-older-servers test-rounds test-simulation test-slow demo bench bench-publish bench-journal bench-bucket bench-replay bench-fetch bench-stan bench-sink bench-scan bench-pipelines bench-replication serve dist chart docs docs-pages screenshots java-check clean

help: ## print this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## set up .venv with the pinned packages; every other target calls it

# Python compiles the modules that it imports; pip would compile all 4,000 of them, one by one.
$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is missing: apt-get install -y python3 python3-venv" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
		|| { echo "Python's venv module is missing: apt-get install -y python3-venv" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[$(EXTRAS)]'
	@rm -f $(VENV)/.installed-* && touch $@

check: install ## formatting, lint, types, import contracts, tidiness
	$(BIN)/ruff format --check src tests bench demo docs_site
	$(BIN)/ruff check src tests bench demo docs_site
	$(BIN)/mypy src tests bench demo docs_site
	$(BIN)/lint-imports
	$(BIN)/pytest -q tests/test_tidy.py

format: install ## rewrite the code as `check` wants it
	$(BIN)/ruff format src tests bench demo docs_site
	$(BIN)/ruff check --fix src tests bench demo docs_site

test: install java-check ## everything: check, and beside it the whole suite, by WORKERS=10 processes side by side
	$(BIN)/python tests/suite.py --beside '$(CHECK)' --workers $(WORKERS) --ignore tests/test_tidy.py $(ARGS)

test-rounds: install java-check ## what is killed, links that are cut, hostile clients, at random: ROUNDS=60 ATTACKS=100000
	TEST_ATTACKS=$(ATTACKS) $(BIN)/pytest -q -s --timeout 0 tests/fuzz $(ARGS)
	TEST_ROUNDS=$(ROUNDS) $(BIN)/pytest -q --timeout 0 tests/durability/test_kill.py tests/durability/test_consumer_kill.py tests/durability/test_failover.py tests/durability/test_replication_kill.py tests/durability/test_queue_kill.py tests/durability/test_stan_kill.py tests/durability/test_stan_client_kill.py tests/durability/test_journal_takeover.py tests/durability/test_journal_hosts.py tests/durability/test_journal_crash.py tests/durability/test_sink_kill.py tests/durability/test_spark_kill.py tests/on_spark/test_pipeline_rounds.py tests/on_spark/test_cinemas.py tests/simulation/test_stream.py tests/simulation/test_adoption.py $(ARGS)

test-simulation: install ## a whole engine on a disk that breaks, simulated RUNS times: RUNS=1000, or SIM_SEED=… alone
	SIM_RUNS=$(RUNS) $(BIN)/pytest -q -s --timeout 0 tests/simulation/test_engine.py $(ARGS)

test-slow: install java-check ## sites of three nodes, and links that the kernel slows down
	TEST_SLOW=1 $(BIN)/pytest -q -rs tests/on_spark/test_cinemas.py $(ARGS)

test-demo: install java-check ## run the demo as a test
	TEST_DEMO=1 $(BIN)/pytest -q tests/test_demo.py $(ARGS)

test-nats-cli: install java-check ## the real nats command line does what the transcripts do: NATS_CLI=/path/to/nats
	HEADWATER_NATS_CLI=$(NATS_CLI) $(BIN)/pytest -q -rs -k nats_command tests/on_spark/test_transcripts.py $(ARGS)

test-older-servers: install java-check ## older nats-servers as origins and as transport: OLDER_SERVERS=folder with <version>/nats-server
	TEST_OLDER_SERVERS=$(OLDER_SERVERS) $(BIN)/pytest -q -rs tests/interop/test_older_servers.py $(ARGS)

.PHONY: test-spark-packages
test-spark-packages: install java-check ## Avro, Protobuf and Delta on Spark: needs Maven, which has the packages; skips say what it lacks
	TEST_SPARK_PACKAGES=1 $(BIN)/pytest -q -rs tests/on_spark/test_spark_packages.py $(ARGS)

demo: install ## tell the whole story: sources, a mirror, a kill, a question for Spark; without Java, streams alone
	@$(BIN)/python -m demo.story $(ARGS) || test $$? -eq 3  # 3: without Java, which the story says

bench: bench-publish bench-journal bench-bucket bench-replay bench-fetch bench-replication ## throughput beside nats-server's: publish, replay, fetch, copy

bench-publish: install ## publishing alone: ARGS="--rounds 3 --sizes 128"
	$(BIN)/python -m bench.publish $(ARGS)

bench-journal: install ## publishing with the head on the disk, in a NATS cluster and in a bucket; take-over times
	PYTHONPATH=tests $(BIN)/python -m bench.journal $(ARGS)

bench-bucket: install java-check ## tables in a bucket: folding, reading, and copies beside nats-server's own; SCALE=1 copies ten million
	PYTHONPATH=tests $(BIN)/python -m bench.bucket $(ARGS)
	PYTHONPATH=tests $(BIN)/python -m bench.replication --bucket --scale $(or $(SCALE),0.1) --skip latency idle

bench-replay: install ## ordered replay of a long stream alone
	$(BIN)/python -m bench.replay $(ARGS)

bench-stan: install ## NATS Streaming, beside the nats-streaming-server that NATS_STREAMING_SERVER names
	$(BIN)/python -m bench.stan $(ARGS)

bench-sink: install java-check ## rows of Spark into a stream: the sink beside nats.py
	$(BIN)/python -m bench.sink $(ARGS)

bench-scan: install java-check ## Spark on a stream beside Spark on the bare Parquet files: ARGS="--scale 0.1"
	$(BIN)/python -m bench.scan $(ARGS)

bench-pipelines: install java-check ## row pipelines beside a nats.py consumer; ARGS="--streaming" adds Structured Streaming
	$(BIN)/python -m bench.pipelines $(ARGS)

bench-fetch: install ## fetching with acknowledgements alone
	$(BIN)/python -m bench.fetch $(ARGS)

bench-replication: install java-check ## sources and mirrors alone: ARGS="--scale 0.1", or --quick
	$(BIN)/python -m bench.replication $(ARGS)

serve: install ## run an engine with the story's streams and a console: STORE=.headwater/store PORT=4222 CONSOLE_PORT=8280
	@$(BIN)/python -m demo.play --store $(STORE) --port $(PORT) --console-port $(CONSOLE_PORT) -- $(ARGS)

dist: install ## build the wheel in dist/
	@rm -rf dist build
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	@rm -rf build
	@ls dist/*.whl

chart: install ## check the Helm chart, with Helm itself where it is installed
	$(BIN)/pytest -q -rs -p no:cacheprovider tests/deploy/test_chart.py

docs: install ## build the docs as a site in .headwater/docs/site, every link checked
	$(BIN)/python -m docs_site.build

screenshots: install java-check ## take the pictures of the console in docs/images; needs Chromium
	PYTHONPATH=tests $(BIN)/python -m docs_site.screenshots $(ARGS)

docs-pages: install ## write the generated pages of docs/reference
	$(BIN)/python -m headwater.cli.docs.settings_page > docs/reference/settings.md
	$(BIN)/python -m headwater.cli.docs.commands_page > docs/reference/cli.md
	$(BIN)/python -m headwater.cli.docs.python_page > docs/reference/python.md

java-check: ## look for the Java 17 that Spark needs: a note where it is missing, an error under CI=true
	@java -version 2>&1 | grep -Eq 'version "(1[7-9]|[2-9][0-9])' || { \
		echo "Java 17 is missing: the tests on Spark cannot run: apt-get install -y openjdk-17-jre-headless" >&2; \
		test "$$CI" != true; }

clean: ## remove what the other targets made, .venv included
	rm -rf $(VENV) .headwater .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist bench/results src/*.egg-info
	find src tests bench demo docs_site -name __pycache__ -type d -prune -exec rm -rf {} +
