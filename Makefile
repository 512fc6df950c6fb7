# Chores. Each needs only git, make and Python 3.11 or later; everything else is installed into .venv, pinned by hash.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test test-quick test-oldest test-bed test-kind test-together e2e oracle kill-test hostile check format manifests bench control-plane-programs control-plane control-plane-down bed bed-down image kind kind-down lock clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 32

# The lock files hold every dependency with its hashes. A stamp that is older than they are makes the environment anew.
$(READY): requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Batchgate needs Python 3.11 or later; name one with: make PYTHON=python3.12" >&2; exit 2; }
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	@echo "Installing the dependencies into $(VENV), pinned by hash; this takes a minute or two."
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r requirements-dev.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(READY) ## apply the examples to a real control plane, run what goes to HPC, show what went where and why
	@$(BIN)/batchgate demo

# What takes values and returns values: no process, no server. It reads nothing but the checkout.
PURE := $(addprefix tests/,gate hpc notation operating placement pod policy preflight reconcile site workload test_architecture.py test_docs.py)

test-quick: $(READY) ## everything pure, in about a minute: what to run while you write
	$(BIN)/pytest -q --ignore tests/hpc/contract --ignore tests/hpc/test_fourth.py $(PURE)

# Most tests wait for something, so that two processes a core share them: see tests/scheduling.py.
WORKERS ?= $(shell expr 2 '*' $$(getconf _NPROCESSORS_ONLN))

# One that waits for ever in its own end fails with every thread's traceback, and its process ends.
ENDLESS := -o faulthandler_timeout=900 -o faulthandler_exit_on_timeout=true

test: $(READY) ## every test that this machine can run; what is skipped is listed with its reason
	@$(BIN)/python -m router.controlplane || echo "Tests that need a control plane are skipped." >&2
	$(BIN)/pytest --numprocesses $(WORKERS) --durations 20 $(ENDLESS)

test-bed: $(READY) ## where the bed is up: a test of each kind on its Slurm, over ssh and sudo, with Apptainer, MPI over all nodes
	$(BIN)/pytest tests/agent/bed/test_users.py tests/agent/bed/test_ring.py tests/agent/bed/test_preflight.py tests/agent/bed/test_fields.py

test-kind: $(READY) ## after `make kind`: Batchgate as it is installed there (deletes its Jobs), another cluster made and taken away, the image
	BATCHGATE_KIND=required $(BIN)/pytest tests/kindcluster tests/imagebuild

test-together: $(READY) ## after `make kind` and `make bed`: Jobs on kind, run by the bed's Slurm, over ssh and from its login node; five minutes
	BATCHGATE_KIND=required BATCHGATE_BED=required $(BIN)/pytest tests/together

E2E ?= tests/e2e
e2e: $(READY) ## after `make kind`, with Apptainer: Kubernetes' own end-to-end tests of Jobs, with every Job sent to HPC; twenty minutes
	BATCHGATE_E2E=required $(BIN)/pytest $(E2E)

# Without kind: as root on Debian with the packages of a real node, and Apptainer.
oracle: $(READY) ## the same Jobs on a real kubelet and on a virtual node: by hand, and drawn (BATCHGATE_DRAWN_JOBS, BATCHGATE_DRAWN_START)
	BATCHGATE_ORACLE=required $(BIN)/pytest tests/e2e/test_oracle.py tests/e2e/test_drawn.py

# What depends on the version of the API server.
OLDEST := BATCHGATE_KUBERNETES=v1.31
VERSIONED := $(addprefix tests/,webhook/real webhook/test_watched.py controlplane chart/test_cluster.py rights certs kubelet startup \
	reference agent/nodes agent/leader agent/whole/test_life.py agent/whole/test_operators.py agent/whole/test_releases.py)

test-oldest: $(READY) ## what depends on the API server, on the oldest Kubernetes that is supported; builds it first
	@$(OLDEST) $(BIN)/python -m router.controlplane
	$(OLDEST) $(BIN)/pytest --numprocesses $(WORKERS) $(VERSIONED)

kill-test: $(READY) ## the long forms of the tests that kill and cut off: real times, 100 kills; an hour, two where a bed is up
	BATCHGATE_KILL_TEST=1 $(BIN)/pytest tests/agent/whole tests/agent/bed/test_kills.py tests/agent/bed/test_submit_kills.py tests/certs/test_ensure.py

hostile: $(READY) ## 20,000 hostile Jobs judged and executed, five minutes of malformed reviews (BATCHGATE_HOSTILE_JOBS, BATCHGATE_MALFORMED_SECONDS)
	BATCHGATE_HOSTILE_JOBS=$${BATCHGATE_HOSTILE_JOBS:-20000} BATCHGATE_MALFORMED_SECONDS=$${BATCHGATE_MALFORMED_SECONDS:-300} \
		$(BIN)/pytest --numprocesses 2 tests/hostile

# What is made from the code is as it would be made now; what helm makes, where `make control-plane-programs` has built it.
MADE := tests/script/test_golden.py tests/test_architecture.py tests/test_examples.py tests/test_prose.py tests/chart/test_options.py \
	tests/chart/test_manifests.py::test_every_file_is_what_the_chart_makes

check: $(READY) ## lint, format, types, layers, shellcheck on generated scripts, what is made from the code, the default policies
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/shellcheck .ci/run image/*.sh
	$(BIN)/pytest -q $(MADE)
	$(BIN)/batchgate policy check policies
	$(BIN)/batchgate policy test policies

format: $(READY) ## let ruff put the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

manifests: $(READY) ## make manifests/ from the chart, after a change there (needs make control-plane-programs)
	@$(BIN)/python -m tests.chart.manifests

bench: $(READY) ## measure, as ratios in one run; written to build/bench/
	$(BIN)/python -m bench

control-plane-programs: $(READY) ## build etcd, Kubernetes and Helm once, with Go; as root on Debian also install what a real node needs
	@$(BIN)/python -m router.controlplane

control-plane: $(READY) ## leave a control plane running, with webhook, agent and queue; prints what to export
	@$(BIN)/python -m router.demo.standing up

control-plane-down: $(READY) ## end it
	@$(BIN)/python -m router.demo.standing down

# ACCOUNTING=no: without slurmdbd. CORES=32: of each node, in place of four.
bed: $(READY) ## as root on Debian 12: a small real HPC site on loopback: Slurm, sshd, Apptainer, Open MPI; two minutes
	@$(BIN)/python -m bed up $(if $(filter no,$(ACCOUNTING)),--no-accounting) $(if $(CORES),--cores $(CORES))

bed-down: $(READY) ## end it; keys, image and job numbers stay
	@$(BIN)/python -m bed down

kind: $(READY) ## a kind cluster with Batchgate: with Docker, or as root on Debian 12 from packages alone; first 3 to 20 minutes, then half a minute
	@$(BIN)/python -m kindcluster packages
	@$(MAKE) --no-print-directory image
	@$(BIN)/python -m kindcluster up

kind-down: $(READY) ## take it away; what was built stays
	@$(BIN)/python -m kindcluster down

# CACHE=no: fetch also what was fetched today.
image: $(READY) ## the images batchgate and batchgate-local, with their bills of materials, into build/image/
	@$(BIN)/python -m imagebuild $(if $(filter no,$(CACHE)),--no-cache)

lock: ## resolve the dependencies anew (needs uv)
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		--extra tracing pyproject.toml -o requirements.lock
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		--group dev --group bench --extra tracing pyproject.toml -c requirements.lock -o requirements-dev.lock
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		--group image -c requirements-dev.lock -o requirements-image.lock

clean: ## remove what the chores made; a control plane or a kind cluster that was left running is ended first
	@test ! -e build/control-plane.json || $(BIN)/python -m router.demo.standing down
	@test ! -e build/kind || $(BIN)/python -m kindcluster down
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
