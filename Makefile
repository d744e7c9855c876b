# Everything runs in .venv, which the first target makes; a Python of 3.10 or later is all that has to be there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO ?= examples/rank-stops-calling
PYTEST_ARGS ?= -n auto

.PHONY: all help demo test test-real bench bench-quick bench-cases bench-history simulate simulate-drift simulate-incidents \
    crash-incidents drill-incidents kube-scale kube-crashes drill-real fuzz watch-replay check format format-check lint types imports clean

all: $(STAMP) ## make .venv and install the program with its tools

$(STAMP): pyproject.toml setup.py $(wildcard src/native/*.[ch])
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.10 or later is needed, this is " + sys.version.split()[0] + "; name another with make PYTHON=...") if sys.version_info < (3, 10) else None'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "$(PYTHON) cannot make a virtual environment (on Debian and Ubuntu: apt install python3-venv)" >&2; exit 1; }
	@echo "installing into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-16s %s\n", $$1, $$2}'

demo: $(STAMP) ## diagnose the examples, and write demo/report.html and demo/trace.json
	@mkdir -p demo
	@for folder in examples/*/; do \
	    echo; echo "== rankmuster diagnose $$folder"; \
	    status=0; $(BIN)/rankmuster diagnose "$$folder" || status=$$?; \
	    echo "(exit status $$status)"; \
	    test $$status -le 2 || exit $$status; \
	done
	@echo
	@$(BIN)/rankmuster diagnose $(DEMO) --format html --output demo/report.html || test $$? -le 2
	@$(BIN)/rankmuster diagnose $(DEMO) --format perfetto --output demo/trace.json 2>/dev/null || test $$? -le 2
	@echo "open demo/report.html in a browser, and demo/trace.json at https://ui.perfetto.dev"

test: $(STAMP) ## run the tests
	$(BIN)/pytest $(PYTEST_ARGS)

$(VENV)/.real: $(STAMP)
	@echo "installing torch (CPU is enough) into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,real]'
	@touch $@

REAL_TESTS := tests/diagnose/test_gloo_dumps.py tests/collect/flight/test_real_debug_server.py \
    tests/collect/test_take_stacks.py tests/collect/bundle/test_upload.py tests/drill/test_gloo_drills.py \
    tests/watch/export/test_export_prometheus.py tests/drill/test_gloo_serving.py tests/drill/test_gloo_watch.py \
    tests/cli/test_flight_slurm_ssh.py tests/bench/builtin/test_builtin_gloo.py tests/bench/launch/test_launch_real.py \
    tests/store tests/cli/test_history_command.py tests/supervise/test_run_torchrun.py \
    tests/drill/test_incident_engine.py tests/drill/test_incident_gloo.py tests/adapters/test_collect_evidence.py \
    tests/cli/test_collect_ended_torchrun.py tests/incident/run/test_run_postgres.py tests/drill/test_pod_rank.py \
    tests/drill/test_gloo_card.py \
    tests/adapters/kube/test_kube_evidence_uploads.py

drill-real: $(VENV)/.real ## whole drills with controls, of a job of one's own, and every fault (about 6 minutes)
	RANKMUSTER_LONG_TESTS=1 $(BIN)/pytest $(PYTEST_ARGS) tests/drill/test_gloo_card_whole.py tests/drill/test_gloo_drills.py

test-real: $(VENV)/.real ## run the tests with real torch processes (CPU, gloo), py-spy, S3, Prometheus, PostgreSQL, Slurm and mpirun
	$(BIN)/pytest $(PYTEST_ARGS) $(REAL_TESTS)

fuzz: $(STAMP) ## changed and damaged dumps through all readers, with sanitizers (5 minutes; needs a C compiler)
	$(BIN)/python tools/fuzz_flight.py --seconds 300 --sanitize

bench: $(STAMP) ## Flight Recorder dumps: time, memory, growth, who is right; writes benchmarks/RESULTS.md (about 20 minutes)
	$(BIN)/python benchmarks/flight_bench.py --output benchmarks/RESULTS.md

bench-quick: $(STAMP) ## the same on small jobs and a part of the grid, printed only (a few minutes)
	$(BIN)/python benchmarks/flight_bench.py --quick

bench-cases: $(STAMP) ## time and memory of the command per case
	$(BIN)/python benchmarks/diagnose_cases.py

bench-history: $(VENV)/.real ## a decision with 1,000,000 stored results, on SQLite and PostgreSQL (1 minute)
	$(BIN)/python benchmarks/history_bench.py

simulate: $(STAMP) ## simulated fleets: what admission finds and refuses; writes docs/measured.md's tables (about 10 minutes)
	$(BIN)/python tools/simulate_fleet.py

simulate-drift: $(STAMP) ## simulated fleets: what drift finds, and its false findings (about 40 minutes)
	$(BIN)/python tools/simulate_drift.py --output docs/measured/drift-fleet.json

simulate-incidents: $(STAMP) ## 1,000 incidents at once on a broken fabric, in simulated time
	$(BIN)/python tools/simulate_incidents.py --output docs/measured/incident-simulation.json

crash-incidents: $(STAMP) ## the runner is killed at every step boundary, hundreds of times
	$(BIN)/python tools/crash_incidents.py --output docs/measured/incident-crashes.json

drill-incidents: $(VENV)/.real ## faults in a serving instance behind HAProxy, from fault to good token
	$(BIN)/python -m rankmuster.drill incident all --times 5 --output drill-incidents

kube-scale: $(STAMP) ## the controller of 5,000 nodes and 1,000 instances, 200 of which stop at once (about 20 minutes)
	$(BIN)/python tools/kube_scale.py --output docs/measured/kube-scale.json

kube-crashes: $(STAMP) ## a cluster of processes, the controller killed at every step (needs root, about 20 minutes)
	$(BIN)/python tools/kube_crashes.py --output docs/measured/kube-crashes.json

watch-replay: $(STAMP) ## replay synthetic hours, stops and the cases through the watch (about 15 minutes)
	$(BIN)/python tools/replay_watch.py --cases tests/cases --output docs/measured/watch-replay.json

check: format-check lint types imports test ## everything that must hold before a commit

format: $(STAMP) ## put the code into its form
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

format-check: $(STAMP)
	$(BIN)/ruff format --check .

lint: $(STAMP) ## ruff
	$(BIN)/ruff check .

types: $(STAMP) ## mypy, strict
	$(BIN)/mypy

imports: $(STAMP) ## the layers of the design
	$(BIN)/lint-imports

clean: ## remove .venv, caches and the demo's output
	rm -rf $(VENV) demo build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache src/*.egg-info
	find src -name '*.so' -delete
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
