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
# Seeds of each scenario of the simulation. They depend on the commit, so that not always the same ones run, and a failure of a commit can
# be repeated.
SEEDS ?= 6
FIRST_SEED := $(shell printf '%d' 0x$$(git rev-parse --short=4 HEAD 2>/dev/null || echo 0))
export NODELESS_SEEDS ?= $(FIRST_SEED)..$(shell expr $(FIRST_SEED) + $(SEEDS))
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

# DynamoDB Local from Maven Central, for the tests of shared/adapters/storage and for the tables of deployed functions; without Java and
# Maven moto and ministack take its place.
$(VENV)/dynamodb/installed: tests/dynamodb/pom.xml $(VENV)/installed
	mvn --quiet --batch-mode --file $< dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$(VENV)/dynamodb
	touch $@

.PHONY: dynamodb
dynamodb: venv ## Install DynamoDB Local into .venv where Java and Maven are
	if command -v java >/dev/null && command -v mvn >/dev/null; then \
	  $(MAKE) $(VENV)/dynamodb/installed || echo "SKIPPED: Maven cannot install DynamoDB Local; moto takes its place"; \
	else echo "SKIPPED: there is no java or no mvn on PATH; moto takes the place of DynamoDB Local"; fi

.PHONY: terraform-provider
terraform-provider: ## Install the AWS provider of Terraform for the tests into ~/.cache/nodeless-tests
	.ci/terraform-provider

.PHONY: fmt
fmt: ## Format everything
	cargo fmt --all
	if command -v terraform >/dev/null; then terraform fmt -recursive terraform; fi

.PHONY: fmt-check
fmt-check: ## Check the formatting
	cargo fmt --all --check

# What refused most changes that passed their own tests: formatting, lock files, the rules of the project, the documentation.
.PHONY: quick
quick: fmt-check lock-files ## Check in under three minutes, after a build, what a change most often forgets
	cargo build --workspace --all-features --bin nodeless
	cargo test --workspace --all-features --test project
	NODELESS_BINARIES="$${CARGO_TARGET_DIR:-target}/debug" $(MAKE) test-docs

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
docs-update: venv ## Write what is generated in docs/: reference pages, tables of measurements, and the plans of the examples
	python3 scripts/docs/reference.py --write
	python3 scripts/docs/benchmarks.py --write
	$(PYTHON) scripts/docs/plans.py --write
	$(PYTHON) scripts/docs/first_minute.py --write

.PHONY: test-docs
test-docs: venv ## Check the documentation (links, commands, generated pages, examples), and what `make compare` and `make instructions` measure
	$(PYTHON) -m pytest tests/documentation tests/compare tests/instructions -q

.PHONY: test
test: ## Run every test but those of `make nightly`
	NODELESS_BINARIES="$${CARGO_TARGET_DIR:-target}/debug" $(SUITES) test-rust test-terraform test-docs test-deployed

# The command line and lifecycle have all features of third-party crates that the workspace uses. With them, and --lib and --test, which
# select nothing of theirs, the tests of a crate use what `make test` has compiled.
ONE_CRATE := cargo test --all-features -p nodeless -p lifecycle --lib
CORE := $(notdir $(wildcard shared/core/* shared/tools/*))

.PHONY: test-fast
test-fast: ## Run the tests of the pure crates (shared/core, shared/tools): no emulator
	$(ONE_CRATE) $(addprefix -p nodeless-,$(CORE)) $(addprefix --test ,$(notdir $(wildcard $(foreach folder,core tools,$(addprefix shared/$(folder)/*/tests/,$(CORE))))))

.PHONY: test-crate
test-crate: ## Run the tests of one crate of shared/: make test-crate CRATE=scheduling
	$(ONE_CRATE) -p nodeless-$(CRATE) $(addprefix --test ,$(notdir $(patsubst %/main.rs,%,$(wildcard shared/$(CRATE)/tests/*/main.rs shared/*/$(CRATE)/tests/*/main.rs))))

# Every built-in scenario but `day`, which takes minutes and has no faults.
SCENARIOS := $(filter-out day,$(notdir $(basename $(wildcard shared/sim/driver/src/scenarios/built-in/*.yaml))))

.PHONY: simulate
simulate: ## Run 300 seeds of each scenario in a release build; SEEDS=1000 runs more, SCENARIOS=surge those of one
	cargo build --release -p nodeless
	$(MAKE) --keep-going SEEDS=$(if $(filter command line,$(origin SEEDS)),$(SEEDS),300) $(addprefix simulate-,$(SCENARIOS))

simulate-%:
	$${CARGO_TARGET_DIR:-target}/release/nodeless simulate --scenario $* --seeds $(FIRST_SEED)..$(shell expr $(FIRST_SEED) + $(SEEDS))

.PHONY: test-rust
test-rust: venv dynamodb ## Run the tests of all crates, against the emulators where they need one
	cargo test --workspace --all-features --no-fail-fast

.PHONY: test-terraform
test-terraform: venv ## Check the Terraform module: fmt, validate, test, checkov
	$(PYTHON) tests/terraform/run.py

.PHONY: test-deployed
# These tests wait for schedules and queues most of the time, so several run at once.
test-deployed: venv ## Apply the module on ministack with the real functions and let them work, but for the tests of `make nightly`
	$(PYTHON) -m pytest tests/deployed -v -m "not nightly" --numprocesses $(DEPLOYED_TESTS_AT_ONCE) --dist worksteal

.PHONY: test-deployed-nightly
test-deployed-nightly: venv
	$(PYTHON) -m pytest tests/deployed -v -m nightly --numprocesses $(DEPLOYED_TESTS_AT_ONCE) --dist worksteal

.PHONY: test-kubernetes
test-kubernetes: venv ## Run nodeless in a real Kubernetes control plane, built from Go modules (KUBERNETES=1.33 for the oldest version)
	$(PYTHON) -m pytest tests/kubernetes -v

# Release builds, because processor time is measured. COMPARE has options of run.py, such as --workload cold-web-300 --seed 1 2 3.
.PHONY: compare
compare: venv ## Run Karpenter and nodeless side by side in real control planes, and write target/compare/index.html
	NODELESS_PROFILE=release $(PYTHON) tests/compare/run.py $(COMPARE)

.PHONY: crds
crds: ## Write the CustomResourceDefinitions into infra/crds
	cargo run --quiet -p nodeless -- crds --write infra/crds

.PHONY: zips
zips: venv ## Build the functions for arm64 as Terraform deploys them, into target/lambda
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" cargo lambda build --release --arm64 --output-format zip $(addprefix -p ,$(FUNCTIONS))

# Only what a release is built with, by hash.
RELEASE_VENV := target/release-venv

$(RELEASE_VENV)/installed: scripts/release-requirements.txt
	python3 -m venv $(RELEASE_VENV)
	$(RELEASE_VENV)/bin/python -m pip install --quiet --require-hashes --requirement $<
	touch $@

.PHONY: release
release: $(RELEASE_VENV)/installed ## Make the archives of a release from the commit, into target/release-archives; PART=command makes that part
	$(RELEASE_VENV)/bin/python scripts/release.py $(PART)

.PHONY: demo
demo: ## Scale a Deployment up and down in a simulated cluster
	cargo demo

# Numbers of nodes, with 20 pods each or as many as follow the x.
SIZES ?= 100x1 100 1000x1
MEASURED := $${CARGO_TARGET_DIR:-target}/measurements

.PHONY: cost
cost: venv dynamodb ## Measure release functions in clusters of several sizes and write docs/benchmarks/cost.md: SIZES="100x1 100", minutes for each
	cargo build --release $(addprefix --package ,$(FUNCTIONS))
	cargo run --release --package nodeless-tests --all-features --example measure-sizes -- \
		$(MEASURED)/$$(git rev-parse --short HEAD) $(SIZES) > $(MEASURED).json
	cp $(MEASURED).json docs/benchmarks/measurements.json
	$(PYTHON) docs/benchmarks/cost.py

.PHONY: bench
bench: ## Run the benchmarks
	cargo bench -p nodeless-workloads


.PHONY: bench-plan
bench-plan: ## Time nodeless plan as a process, on exports of several workloads
	cargo build --release -p nodeless
	cargo build --release -p nodeless-workloads --example export
	python3 tests/bench/plan.py $${CARGO_TARGET_DIR:-target}/release/nodeless $${CARGO_TARGET_DIR:-target}/release/examples/export

# Clippy as the compiler of the crates of the workspace, so that they are compiled and linted at once, and what they use is compiled
# once, instead of a second time for `make lint`.
LINTED := RUSTC_WORKSPACE_WRAPPER="$$(rustup which clippy-driver)" CLIPPY_ARGS="-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__"

# The tests that are deployed wait most of the time, so they begin as soon as the functions are built, while the tests in Rust are built
# and run.
.PHONY: ci
ci: fmt-check ## Run everything that must pass before a change lands
	$(MAKE) --jobs=2 dynamodb linted-binaries
	$(LINTED) NODELESS_BINARIES="$${CARGO_TARGET_DIR:-target}/debug" $(SUITES) --jobs 3 test-deployed instructions-quick test-rust test-docs checks

.PHONY: linted-binaries
linted-binaries:
	$(LINTED) cargo build --workspace --all-features --bins --example export --example up_and_down

# What CI has built is counted, which costs it no second build: the crates in which plans spend their time are optimised in it. Incremental
# builds have other instructions.
COUNT := python3 tests/instructions/run.py $${CARGO_TARGET_DIR:-target}/debug
instructions instructions-update: export CARGO_INCREMENTAL := 0

.PHONY: instructions
instructions: linted-binaries ## Count the instructions of commands with callgrind, and compare them with tests/instructions/figures.json
	$(COUNT)

# `make ci` has built the binaries. Cargo would wait here until it has built the tests.
.PHONY: instructions-quick
instructions-quick:
	$(COUNT) --quick

.PHONY: instructions-update
instructions-update: linted-binaries ## Record the instructions of commands in tests/instructions/figures.json
	$(COUNT) --write

.PHONY: checks
checks: ## Run what needs no compiler: Terraform, lock files, licences
	$(MAKE) --keep-going test-terraform lock-files deny-offline

.PHONY: lock-files
lock-files: ## Check that the lock files are up to date
	cargo metadata --locked --format-version 1 >/dev/null
	cd fuzz && cargo metadata --locked --format-version 1 >/dev/null

.PHONY: nightly
nightly: dynamodb ## Run what takes longer: hundreds of seeds, fuzz targets, shipped features, all deployed tests, control planes, benches
	$(SUITES) simulate malformed isolation fuzz lint doc shipped instructions test-deployed-nightly test-kubernetes-oldest test-kubernetes bench docs

.PHONY: malformed
malformed: ## Give 400 changed exports and requests to the commands and servers of the command line
	NODELESS_SEEDS=$(FIRST_SEED)..$(shell expr $(FIRST_SEED) + 400) cargo test --all-features -p nodeless --test cli malformed

.PHONY: isolation
isolation: ## Write random objects of a tenant, keys and statuses into 400 clusters: they must change nothing for others
	NODELESS_SEEDS=$(FIRST_SEED)..$(shell expr $(FIRST_SEED) + 400) cargo test --all-features -p nodeless -p lifecycle \
		-p nodeless-operations --test operations -p nodeless-workloads --test workloads -- isolation keys

.PHONY: test-kubernetes-oldest
test-kubernetes-oldest:
	$(MAKE) test-kubernetes KUBERNETES=1.33

.PHONY: deny-offline
deny-offline: ## Check licences and duplicate crates where cargo-deny is installed
	if command -v cargo-deny >/dev/null; then cargo deny --offline check bans licenses sources; \
	else python3 tests/tools/results.py cargo-deny deny-offline "there is no \`cargo-deny\` in PATH"; fi

.PHONY: deny
deny: ## Check licences, advisories and duplicate crates (needs cargo-deny and the network)
	cargo deny check

