# Every check of the project. `make` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
VENV := .venv
PYTHON := $(VENV)/bin/python
FUNCTIONS := planner lifecycle interruption catalog wake installer
# Without one of these programs, tests fail that are otherwise skipped. `make test` has just installed moto; CI adds what it installs.
export NODELESS_REQUIRE_TOOLS += moto_server
# Runs targets whatever the others result in, and lists at the end what failed and what was skipped.
SUITES := python3 scripts/suites.py
# Seeds of the simulation with all faults: a few with a plain `cargo test`, these here and in CI.
export NODELESS_SEEDS ?= 0..200
DEPLOYED_TESTS_AT_ONCE ?= 4

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-16s %s\n", $$1, $$2}'

# The stamp is renewed when the list of tools changes.
$(VENV)/installed: tests/requirements.txt
	python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --requirement tests/requirements.txt
	touch $@

.PHONY: venv
venv: $(VENV)/installed ## Install moto, ministack, cargo-lambda and the other tools of the tests into .venv

# DynamoDB Local from Maven Central, for the tests of shared/adapters/state; without Java and Maven moto takes its place.
$(VENV)/dynamodb/installed: tests/dynamodb/pom.xml $(VENV)/installed
	mvn --quiet --batch-mode --file $< dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$(VENV)/dynamodb
	touch $@

.PHONY: dynamodb
dynamodb: venv ## Install DynamoDB Local into .venv where Java and Maven are
	if command -v java >/dev/null && command -v mvn >/dev/null; then \
	  $(MAKE) $(VENV)/dynamodb/installed || echo "SKIPPED: Maven cannot install DynamoDB Local; moto takes its place"; \
	else echo "SKIPPED: there is no java or no mvn on PATH; moto takes the place of DynamoDB Local"; fi

.PHONY: fmt
fmt: ## Format everything
	cargo fmt --all
	if command -v terraform >/dev/null; then terraform fmt -recursive terraform; fi

.PHONY: fmt-check
fmt-check: ## Check the formatting
	cargo fmt --all --check

.PHONY: lint
lint: ## Clippy over everything, warnings denied
	cargo clippy --workspace --all-targets --all-features -- -D warnings

.PHONY: doc
doc: ## Build the documentation of all crates, warnings denied
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --all-features

.PHONY: shipped
# The functions together, because `make zips` and a release build them with one command, which decides the features of what they link.
shipped: ## Check the functions and the command line with the features that they ship with, and what `cargo demo` builds
	cargo check --locked $(addprefix --package ,$(FUNCTIONS))
	cargo check --locked --package nodeless
	cargo check --locked --package nodeless --no-default-features

.PHONY: fuzz
fuzz: ## Run each fuzz target for a minute (needs a nightly compiler)
	scripts/fuzz.sh

# mdBook in the version that the workflow `docs` uses. Only search: neither a server nor a watcher.
MDBOOK_VERSION := 0.5.4
MDBOOK := target/tools/mdbook-$(MDBOOK_VERSION)/bin/mdbook

$(MDBOOK):
	cargo install mdbook --version $(MDBOOK_VERSION) --locked --no-default-features --features search --root $(dir $(@D)) --target-dir target/tools/build
	rm -rf target/tools/build

.PHONY: docs
docs: $(MDBOOK) ## Build the documentation site into target/book and check its links; installs mdBook first, a few minutes
	$(MDBOOK) build
	python3 scripts/docs/check_site.py target/book

.PHONY: docs-update
docs-update: venv ## Write what is generated in docs/: reference pages, pictures, and the plans of the examples
	python3 scripts/docs/reference.py --write
	python3 scripts/docs/pictures.py --write
	python3 scripts/docs/dashboard.py --write
	$(PYTHON) scripts/docs/plans.py --write

.PHONY: test-docs
test-docs: venv ## Check the documentation: links, commands, generated pages, pictures and examples
	$(PYTHON) -m pytest tests/documentation -q

.PHONY: test
test: ## Run every test
	NODELESS_BINARIES="$${CARGO_TARGET_DIR:-target}/debug" $(SUITES) test-rust test-terraform test-docs test-deployed test-kubernetes

.PHONY: test-fast
test-fast: ## Run the tests of the pure crates (shared/core): no emulator
	cargo test $(addprefix -p nodeless-,$(notdir $(wildcard shared/core/*)))

.PHONY: simulate
simulate: ## Run 200 seeds of the simulation with all faults
	cargo run --release -p nodeless -- simulate --scenario faults --seeds 0..200

.PHONY: test-rust
test-rust: venv dynamodb ## Run the tests of all crates, against the emulators where they need one
	cargo test --workspace --all-features --no-fail-fast

.PHONY: test-terraform
test-terraform: venv ## Check the Terraform module: fmt, validate, test, checkov
	$(PYTHON) tests/terraform/run.py

.PHONY: test-deployed
# These tests wait for schedules and queues most of the time, so several run at once.
test-deployed: venv ## Apply the module on ministack with the real functions and let them work
	$(PYTHON) -m pytest tests/deployed -v --numprocesses $(DEPLOYED_TESTS_AT_ONCE) --dist worksteal

.PHONY: test-kubernetes
test-kubernetes: venv ## Run nodeless in a real Kubernetes control plane, built from Go modules (KUBERNETES=1.33 for the oldest version)
	$(PYTHON) -m pytest tests/kubernetes -v

.PHONY: crds
crds: ## Write the CustomResourceDefinitions into infra/crds
	cargo run --quiet -p nodeless -- crds --write infra/crds

.PHONY: zips
zips: venv ## Build the functions for arm64 as Terraform deploys them, into target/lambda
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" cargo lambda build --release --arm64 --output-format zip $(addprefix -p ,$(FUNCTIONS))

.PHONY: release
release: venv ## Make the archives of a release from the commit, into target/release-archives
	$(PYTHON) scripts/release.py

.PHONY: demo
demo: ## Scale a Deployment up and down in a simulated cluster
	cargo demo

# Numbers of nodes, with 20 pods each or as many as follow the x.
SIZES ?= 100x1 100 1000x1
MEASURED := $${CARGO_TARGET_DIR:-target}/measurements.json

.PHONY: cost
cost: venv dynamodb ## Measure release functions in clusters of several sizes and write docs/cost.md: SIZES="100x1 100", minutes for each
	cargo build --release $(addprefix --package ,$(FUNCTIONS))
	cargo run --release --package nodeless-tests --all-features --example measure-sizes -- $(SIZES) > $(MEASURED)
	cp $(MEASURED) docs/measurements.json
	$(PYTHON) docs/cost.py

.PHONY: bench
bench: ## Run the benchmarks
	cargo bench -p nodeless-workloads

.PHONY: bench-plan
bench-plan: ## Time nodeless plan as a process, on exports of several workloads
	cargo build --release -p nodeless
	cargo build --release -p nodeless-workloads --example export
	python3 tests/bench/plan.py $${CARGO_TARGET_DIR:-target}/release/nodeless $${CARGO_TARGET_DIR:-target}/release/examples/export

# What CI runs. The tests that are deployed wait most of the time, so they begin as soon as the functions are built, while the tests in
# Rust are built and run.
.PHONY: ci
ci: fmt-check venv ## Run everything that must pass before a change lands
	cargo build --workspace --all-features --bins
	NODELESS_BINARIES="$${CARGO_TARGET_DIR:-target}/debug" $(SUITES) --jobs 3 test-deployed test-rust test-docs checks

.PHONY: checks
# In this order, because cargo builds one command at a time in a target directory: the first two leave it to the tests.
checks: ## Run what needs no running process: Terraform, fuzz targets, lints, documentation, what ships, licences
	$(MAKE) --jobs=1 --keep-going test-terraform fuzz lint doc shipped deny-offline

.PHONY: deny-offline
deny-offline: ## Check licences and duplicate crates where cargo-deny is installed
	if command -v cargo-deny >/dev/null; then cargo deny --offline check bans licenses sources; \
	else python3 tests/tools/results.py cargo-deny deny-offline "there is no \`cargo-deny\` in PATH"; fi

.PHONY: deny
deny: ## Check licences, advisories and duplicate crates (needs cargo-deny and the network)
	cargo deny check

