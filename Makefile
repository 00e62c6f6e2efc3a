# What a person needs: demo, test, test-real. The rest is for those who work on Drover.
.DEFAULT_GOAL := help
SHELL := /bin/bash
# Programs are chosen by --bin, never by -p: then all of them share the dependencies that the tests were built with.

.PHONY: help demo docs demo-real build image test test-real record diff-fuzz sim sabotage mutants fuzz bench bench-sim bench-harvester bench-plan bench-preflight bench-guests lab

help: ## Show this
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: ## Upgrade three nodes of the embedded cluster, with live progress
	@./scripts/need cargo cc
	cargo run --release --locked --quiet --bin drover -- demo plan

demo-real: ## Upgrade the kubelets of three real nodes under load, line by line (as root, on Linux)
	@./scripts/need cargo cc go real-nodes
	cargo run --locked --quiet --bin drover-lab -- demo

build: ## Build the release binary: target/release/drover
	@./scripts/need cargo cc
	cargo build --release --locked --bin drover

image: ## Build Drover's image as an OCI archive, without a container engine: target/images/drover.tar
	@./scripts/need cargo cc
	cargo run --locked --quiet --bin drover-image

# Unit tests take seconds however they are built, and minutes to be optimised; what runs upgrades is optimised in its tests, too.
test: ## Everything that needs no other server
	@./scripts/need cargo cc
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo test --workspace --locked --profile mutants --lib
	cargo test --workspace --locked --bins --test '*'
	cargo test --workspace --locked --doc

# The program in the image of real nodes is hardly optimised there: it takes a core more than ten minutes, and nodes wait for other things.
test-real: export CARGO_PROFILE_RELEASE_LTO = off
test-real: export CARGO_PROFILE_RELEASE_CODEGEN_UNITS = 16
test-real: export CARGO_PROFILE_RELEASE_OPT_LEVEL = 1
test-real: sim ## The whole campaign of make sim; then build and start a real control plane and real nodes (as root), and run the rest against them
	@./scripts/need cargo cc go real-nodes
	cargo run --locked --quiet --bin drover-lab -- build
	cargo test --workspace --locked --test '*' -- --ignored --test-threads=1

record: ## Record anew what a real kube-apiserver answers (tests/difference)
	@./scripts/need cargo cc go
	cargo run --locked --quiet --bin drover-difference -- record

diff-fuzz: ## Generate requests, play them to both sides: make diff-fuzz SEED=7 COUNT=5000
	@./scripts/need cargo cc go
	cargo run --locked --quiet --bin drover-difference -- fuzz --seed $(or $(SEED),1) --count $(or $(COUNT),5000)

# By the program of the tests: it is as fast as a release that is not optimised across crates, and is there already.
sim: ## Every scenario: crashes at every write, every fault at every kind of write, two crashes, random schedules; EVERY=7 for a seventh
	@./scripts/need cargo cc
	cargo build --locked --quiet --bin drover
	mkdir -p target/sim
	time cargo run --locked --quiet --bin drover -- simulate --every $(or $(EVERY),1) --trace target/sim/trace.txt --store target/sim/store.json

sabotage: ## Search for every planted bug that does not show any more where it did (crates/sim/tests/sabotage.txt)
	UPDATE=1 cargo test --locked --package drover-sim --test all every_planted_bug_is_found -- --nocapture

mutants: ## Change core in small ways and look whether its tests notice (needs cargo-mutants); SHARD=0/1 for all changes, 0/18 is an eighteenth
	cargo run --locked --quiet --profile mutants --bin drover-mutants -- --shard $(or $(SHARD),0/18) $(if $(AGAIN),--again $(abspath $(AGAIN))) $(if $(UNREACHED),--unreached)

# libFuzzer needs counters in the code, and no sanitizer: a stable compiler can do that.
FUZZ_FLAGS := --cfg fuzzing -Cpasses=sancov-module $(addprefix -Cllvm-args=-sanitizer-coverage-,level=4 inline-8bit-counters pc-table trace-compares)
FUZZ_HOST = $(shell rustc -vV | sed -n 's/^host: //p')
TARGET ?= requests

fuzz: ## Search for what breaks the embedded API server (needs a C++ compiler): make fuzz TARGET=expressions SECONDS=600
	@./scripts/need cargo cc
	cd fuzz && RUSTFLAGS="$(FUZZ_FLAGS)" cargo build --release --target $(FUZZ_HOST) --target-dir ../target/fuzz
	mkdir -p target/fuzz/corpus/$(TARGET)
	target/fuzz/$(FUZZ_HOST)/release/$(TARGET) target/fuzz/corpus/$(TARGET) fuzz/seeds/$(TARGET) \
	  -max_total_time=$(or $(SECONDS),300) -timeout=10 -artifact_prefix=target/fuzz/

bench: ## Measure the embedded API server, the simulated world and the operator
	cargo bench --locked -p drover-corral --bench corral --bench world
	cargo bench --locked -p drover --bench corral --bench operator

bench-preflight: ## Measure preflight on 1,000 nodes, 10,000 VMs and 30,000 pods
	cargo bench --locked -p drover --bench preflight

bench-guests: ## Measure an operator with 200 guest clusters of 6 machines that nobody changes: its work, its memory, what it asks of guests
	cargo bench --locked -p drover --bench guests

bench-sim: ## Measure simulated upgrades: crashes at every write, 100 nodes, 1,000 nodes with 30,000 pods
	cargo bench --locked -p drover-sim --bench sim

bench-harvester: ## Measure how long simulated upgrades of Harvester wait for nobody, and their requests, on 3, 10 and 100 nodes
	cargo bench --locked -p drover-sim --bench harvester

bench-plan: build ## Measure Plans on a real control plane with KWOK nodes; ARGS="--controller-command '...'" measures another
	@./scripts/need cargo cc go
	cargo bench --locked --quiet -p drover-lab --bench plan -- --operator target/release/drover $(ARGS)

lab: ## A real control plane with three KWOK nodes, until Ctrl-C
	@./scripts/need cargo cc go
	cargo run --locked --quiet --bin drover-lab -- up --kwok-nodes 3

docs: ## Write the generated parts of docs anew: checks.md
	@./scripts/need cargo cc
	DROVER_WRITE_DOCS=1 cargo test --locked --quiet -p drover-core --lib the_page_is_as_the_catalogue_says
