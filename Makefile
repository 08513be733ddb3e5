# Everything works from a bare clone: each target installs what it misses, by name, and says so.
#
#   make demo            record a busy server for five seconds and write its flame graph
#   make demo-continuous an agent, a server and a slower version of a service, found within five minutes (root)
#   make test            what to run before sending a change; live tests on three Node versions
#   make test-all        that, and every version, engine, container and delay
#   make test-corpus     foreign files: NODESPY_CORPUS=FOLDER
#   make lint            formatting, clippy, documentation, licences (with THIRD-PARTY.md) and the page's checks, warnings as errors
#   make bench-overhead  what a recording costs the watched program, against perf
#   make bench-peers     how fast files are read and drawn, against the tools that made them
#   make bench-viewer    what the page costs in a browser, against other viewers
#   make bench-store     what the store of windows costs, beside its goals
#   make bench-serve     how long the page of `nodespy serve` waits for 30 days of 50 services
#   make bench-agent     what `nodespy agent` costs beside ten busy processes
#   make bench           overhead, peers, viewer, store and agent, into docs/benchmarks.md: BENCH='peers store' for some
#   make bench-honesty   how often `nodespy diff` is wrong on this machine, and what it finds
#   make bench-real      record two dozen real programs and check what is said about each
#   make chaos           random trouble at random moments, from a random seed that it prints: SEED=7 ROUNDS=1 plays one
#                        round again; ROUNDS=1000 SECONDS_AT_MOST=3600 goes on for an hour; CYCLES=200 attaches
#                        so often with each engine to Node 16, 20 and 26 (VERSIONS=18,24 to others)
#   make soak            record a server with deployments for MINUTES=60 and watch memory, descriptors and names
#   make soak-continuous the same for an agent and a server, which are killed in turn (root)
#   make openers         open what is exported with go tool pprof, speedscope and DevTools
#   make viewer          build the page's script from its TypeScript
#   make golden          rewrite the golden files (look at the diff before you commit it)
#   make fuzz            every fuzz target, one after the other: SECONDS=600 each, FUZZ='nspy heap' for some
#   make dist            what is shipped: an archive, a .deb and npm packages, with checksums; WITHOUT='deb npm' leaves some out
#   make dist-check      that twice, in two folders, and whether the bytes are the same
#   make guides          the worked examples of docs/guide, with their pictures: GUIDES='cpu pm2' for some (root)
#   make setup           only the set-up

SHELL := /bin/bash
CARGO ?= cargo

.PHONY: demo demo-continuous test test-corpus test-all lint bench bench-overhead bench-peers bench-viewer bench-store bench-serve bench-agent bench-real bench-honesty chaos soak soak-continuous openers golden viewer fuzz dist dist-check guides setup

setup:
	@tools/setup.sh

demo:
	@tools/setup.sh demo
	@$(CARGO) build --release --bin nodespy
	@tools/demo.sh

demo-continuous:
	@tools/setup.sh demo
	@$(CARGO) build --release --bin nodespy
	@tools/demo-continuous.sh $(SECONDS_AT_MOST)

test: setup
	@tools/test.sh quick

# Another corpus: make test-corpus NODESPY_CORPUS=FOLDER
test-corpus:
	@NODESPY_CORPUS=$(NODESPY_CORPUS) tools/test.sh corpus

test-all: test
	@tools/setup.sh all
	@tools/test.sh matrix

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	$(CARGO) clippy --workspace --test corpus --test chaos --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet
	$(CARGO) run --quiet -p xtask -- licences
	$(CARGO) run --quiet -p xtask -- viewer-tables --check
	tools/viewer.sh

# Some of them: make bench BENCH='peers store'
bench:
	@tools/bench.sh $(BENCH)

bench-overhead:
	@tools/setup.sh
	$(CARGO) build --release --bin nodespy
	$(CARGO) run --release -p nodespy-benches --bin overhead -- $(BENCH_ARGS)

bench-peers:
	@tools/setup.sh
	@tools/peers.sh
	@benches/peers/inputs.sh target/peers/inputs
	$(CARGO) build --profile dist --bin nodespy
	$(CARGO) run --release -p nodespy-benches --bin peers -- --nodespy target/dist/nodespy $(PEERS_ARGS)

bench-viewer:
	@tools/setup.sh
	@PEERS=few tools/peers.sh
	@benches/viewer/inputs.sh target/peers/inputs
	$(CARGO) build --release --bin nodespy
	$(CARGO) run --release -p nodespy-benches --bin viewer -- target/peers/inputs $(VIEWER_ARGS)

# Less than a day, in ClickHouse: make bench-store HOURS=6 CLICKHOUSE=http://127.0.0.1:8123/bench
bench-store:
	$(CARGO) run --release -p nodespy-benches --bin store -- $(or $(HOURS),24) $(CLICKHOUSE)

# The store takes some gigabytes below target, and is kept for the next time.
bench-serve:
	$(CARGO) build --release --bin nodespy
	$(CARGO) run --release -p nodespy-benches --bin serve -- target/bench-serve target/release/nodespy

# Longer, or beside more: make bench-agent SECONDS=600 COUNT=30
bench-agent:
	$(CARGO) build --release -p nodespy
	@benches/agent/run.sh $(or $(SECONDS),60) $(or $(COUNT),10)

# One of them: make bench-real REAL=tsc
bench-real:
	@tools/setup.sh
	$(CARGO) build --release --bin nodespy
	@benches/real/run.sh $(REAL)

bench-honesty:
	@tools/setup.sh
	$(CARGO) build --release --bin nodespy
	$(CARGO) build --release -p nodespy-benches --bin honesty
	@benches/honesty/run.sh $(RUNS)

chaos:
	@tools/setup.sh
	@NODESPY_CHAOS_SEED=$(or $(SEED),$$((RANDOM << 15 | RANDOM))) NODESPY_CHAOS_ROUNDS=$(ROUNDS) NODESPY_CHAOS_SECONDS=$(SECONDS_AT_MOST) \
		NODESPY_CHAOS_CYCLES=$(CYCLES) NODESPY_CHAOS_VERSIONS=$(VERSIONS) \
		$(CARGO) test --release -p nodespy --test chaos -- --nocapture

soak:
	@tools/setup.sh
	$(CARGO) build --release --bin nodespy
	@benches/soak/run.sh $(MINUTES)

soak-continuous:
	$(CARGO) build --release --bin nodespy
	@benches/soak/continuous.sh $(MINUTES)

openers:
	@tools/openers.sh $(OPENERS_FILES)

golden:
	$(CARGO) run -p xtask -- golden

viewer:
	@tools/viewer.sh build

fuzz:
	@tools/fuzz.sh $(or $(SECONDS),60) $(FUZZ)

guides:
	@tools/setup.sh all
	$(CARGO) build --release --bin nodespy
	@tools/guides.sh $(GUIDES)

dist:
	@tools/dist.sh

dist-check:
	@tools/dist.sh check
