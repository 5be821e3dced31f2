# Thin: what it calls is cargo and scripts/. Rust is the one prerequisite; the rest is installed by the target that
# needs it. Where that takes root and you are not, the command is printed and nothing is done.

EXPERIMENT ?= experiments/03-name-service-crash.toml
TARGET      = $(shell sed -n 's/^use *= *"\(.*\)"/\1/p' $(EXPERIMENT) | head -n 1)
SET        ?=
SHORT      ?=
TIME       ?= 600
TARGETS    ?=
SOAK       ?= 1800
PARTS      ?=
SEED       ?= 1
MUTANTS    ?= 60

# One make target for each file of experiments/studies.
STUDIES = $(patsubst experiments/studies/%.toml,study-%,$(wildcard experiments/studies/*.toml))

# All that is tested is tested in one set of features, so that it is compiled once.
WHOLE = --workspace --features plimsoll/scripts --locked

# What need.sh installs for these two.
LINT_NEEDS = rust compiler c++ erlang-checks shellcheck
TEST_NEEDS = rust compiler c++ erlang-tests docket python lab ssh target:redis target:etcd memcached nghttpd python-grpc nginx curl websockets

# Tests send signals, which `nohup` and a shell's `&` have all below them ignore. A make that a test calls is on its own.
SIGNALS = env --default-signal=HUP,INT,QUIT MAKEFLAGS=--no-print-directory
# Most of them wait for others most of the time.
export RUST_TEST_THREADS ?= 8
# Those of the parts run beside those on real runs.
PARTS_THREADS ?= 4

# Where rustup puts cargo, for shells that do not know it yet.
export PATH := $(PATH):$(HOME)/.cargo/bin

.PHONY: help run check quick test test-runs test-parts test-without-ring test-readers test-fleet test-targets needs clippy lint gate bench bench-rally siege fuzz docs pages nvdimm dist packages porcupine $(STUDIES)

help:
	@echo 'make run    install what is missing, play $(EXPERIMENT), say where the report is'
	@echo '            make run SET="--set load.time=3m --set fault.oops.at=90s"       the same for 3 minutes, as in the article'
	@echo '            make run EXPERIMENT=experiments/01-first-run.toml               another one'
	@echo 'make check  format, house rules and unit tests: no root, nothing to install but Rust and a C compiler'
	@echo 'make quick CRATE=load   format, house rules, clippy and unit tests of one crate'
	@echo 'make test   all tests, the Erlang ones and those on real runs included'
	@echo 'make test-fleet   generators on a real Slurm that it brings up here (root), and on the Kubernetes of'
	@echo '            PLIMSOLL_TEST_KUBERNETES=URL,NAMESPACE,IMAGE and its pods by PLIMSOLL_TEST_PODS=URL,NAMESPACE,SELECTOR,IMAGE'
	@echo '            where these are set; make test plays all of it on stand-ins'
	@echo 'make test-targets   the real Elasticsearch, OpenSearch, Pacemaker and Redis for a minute each (root, network); some: TARGETS="redis"'
	@echo 'make lint   format, clippy, house rules, licences, packages, Dialyzer, shellcheck'
	@echo 'make gate   is the load engine slower than where this branch began? builds both, lets them take turns'
	@echo 'make mutants  60 mutants of the statistics and of the verdict, drawn with SEED=1, and whether the unit tests catch them; writes target/mutants'
	@echo 'make fuzz   each fuzz target for TIME=600 seconds, or some: make fuzz TIME=60 TARGETS="http vsns"; short ones are in make test'
	@echo 'make bench  Plimsoll beside wrk, oha, hey and h2load, and held against the truth; 50,000 agents; what hosts get of what is asked; whether'
	@echo '            differences can be trusted; writes bench/*.md'
	@echo 'make bench-rally  Elasticsearch loaded by Plimsoll and by Rally in turns, and a stream of 10 GB of documents; writes bench/RESULTS.md (root)'
	@echo 'make nvdimm persistent memory set up as doctor says, on an emulated NVDIMM in a virtual machine; a minute or two, without root'
	@echo 'make study-vsns, study-pi, study-search, study-pacemaker, study-etcd   the experiments of an article, one after the other, and one page that'
	@echo '            links their reports (root); make study-vsns SHORT=1 runs their short forms'
	@echo 'make siege  kills, corrupted records, attackers, hostile servers and hosts, fuzzers, a soak of SOAK=1800 seconds and a day of'
	@echo '            records; writes bench/RELIABILITY.md (two hours); some parts: make siege PARTS="kills soak"'
	@echo 'make pages  opens report pages in Chromium and does with them what a reader does; pictures of them are in target/pages'
	@echo 'make dist   a tarball and a Debian package of the program, with completions and manual pages, in target/dist-packages'
	@echo 'make packages  installs the program from its cargo packages alone, and plays it without the checkout (root; ten minutes)'
	@echo 'make docs   regenerate docs/reference from the tables in the code'

run:
	@scripts/need.sh rust compiler
	@# What the target needs is fetched while the compiler works. Elsewhere than as root, `run --install` tells what is missing.
	@[ "$$(id -u)" != 0 ] || scripts/need.sh "target:$(TARGET)" & packages=$$!; \
		cargo build --quiet --profile quick --locked --package plimsoll; built=$$?; wait $$packages; exit $$built
	@target/quick/plimsoll run $(EXPERIMENT) --install $(SET)

check:
	@scripts/need.sh rust compiler
	cargo fmt --all --check
	cargo xtask tidy
	cargo test --quiet --workspace --locked --lib --bins

quick:
	@scripts/need.sh rust compiler
	@[ -f 'crates/$(CRATE)/Cargo.toml' ] || { echo 'make quick CRATE=NAME: one of' $$(cd crates && ls -d */ | tr -d /) >&2; exit 2; }
	cargo fmt --all --check
	cargo xtask tidy
	cargo clippy --quiet --locked --manifest-path crates/$(CRATE)/Cargo.toml --all-targets -- --deny warnings
	cargo test --quiet --locked --manifest-path crates/$(CRATE)/Cargo.toml --lib --bins

test:
	@scripts/need.sh $(TEST_NEEDS)
	@# The compiler works while the targets' own tests wait for each other.
	cargo test --quiet --no-run $(WHOLE) & compiler=$$!; for target in vsns docket elasticsearch pacemaker; do \
		$(MAKE) --no-print-directory -C targets/$$target test || { wait $$compiler; exit 1; }; done; wait $$compiler
	@# Two at a time, since each of them waits for others most of the time: the tests on real runs, and all others one after the other.
	@$(MAKE) --no-print-directory --keep-going --jobs 2 --output-sync=target test-runs test-parts test-without-ring test-readers

# The tests of the binary from outside.
test-runs:
	@$(SIGNALS) cargo test --quiet $(WHOLE) --test e2e

# All others: each test program whose name does not begin with e2.
test-parts:
	@RUST_TEST_THREADS=$(PARTS_THREADS) $(SIGNALS) cargo test --quiet --no-fail-fast $(WHOLE) --lib --bin plimsoll --bin xtask --test '[!e]*' --test 'e[!2]*'

# The engine where there is no io_uring, without the tests in which it is never used, and those of values and records.
WITHOUT_IO = calls client encoding encryption etcd expectations feeds grpc http2 limits multiplexed prepare programs records \
	register scripts secret steps tls units websocket
test-without-ring:
	@RUST_TEST_THREADS=$(PARTS_THREADS) WITHOUT_RING=1 $(SIGNALS) cargo test --quiet --no-fail-fast $(WHOLE) --test engine --test allocations -- $(WITHOUT_IO:%=--skip %::)

# What others read, read by their own libraries.
test-readers:
	scripts/check-hlog.sh target/debug/plimsoll
	scripts/check-otlp.sh target/debug/plimsoll

# Another checker reads what `export --history` writes. Needs root and Go.
porcupine:
	@scripts/need.sh rust compiler python lab target:etcd
	@cargo build --quiet --profile quick --locked --package plimsoll
	scripts/check-porcupine.py target/quick/plimsoll

test-fleet:
	@scripts/need.sh rust compiler c++
	cargo test --quiet --no-run $(WHOLE) --test e2e
	@slurm=$$(scripts/slurm.sh up target/tools/slurm) && export $$slurm && status=0; \
		$(SIGNALS) cargo test --quiet $(WHOLE) --test e2e -- --ignored --nocapture a_real_slurm || status=1; \
		scripts/slurm.sh down target/tools/slurm; exit $$status
	@if [ -n "$$PLIMSOLL_TEST_PODS" ]; then \
		$(SIGNALS) cargo test --quiet $(WHOLE) --test e2e -- --ignored --nocapture real_pods; fi
	@if [ -n "$$PLIMSOLL_TEST_KUBERNETES" ]; then \
		$(SIGNALS) cargo test --quiet $(WHOLE) --test e2e -- --ignored --nocapture a_real_kubernetes; \
		else echo 'without PLIMSOLL_TEST_KUBERNETES=URL,NAMESPACE,IMAGE: Kubernetes is not played'; fi

test-targets:
	@scripts/need.sh rust compiler lab python
	@cargo build --quiet --profile quick --locked --package plimsoll
	@scripts/test-targets.sh target/quick/plimsoll $(TARGETS)

# What `lint` and `test` need, all at once.
needs:
	@scripts/need.sh $(sort $(LINT_NEEDS) $(TEST_NEEDS))

clippy:
	@scripts/need.sh rust compiler c++
	cargo fmt --all --check
	cargo clippy --quiet $(WHOLE) --all-targets -- --deny warnings

lint: clippy
	@scripts/need.sh $(LINT_NEEDS)
	cargo xtask tidy
	scripts/check-packages.sh --short
	@# The first time, cargo-deny is built while Dialyzer reads Erlang's libraries.
	scripts/deny.sh & licences=$$!; $(MAKE) --no-print-directory -C targets/vsns check && \
		$(MAKE) --no-print-directory -C targets/docket check; checked=$$?; wait $$licences && exit $$checked
	grep --recursive --files-with-matches --extended-regexp --binary-files=without-match --exclude-dir=_build --exclude='*.rs' \
		'^#!.*[/ ](ba|da)?sh$$' .ci action scripts targets crates/plimsoll/tests | xargs shellcheck --exclude SC2016

gate:
	@scripts/need.sh rust compiler
	scripts/gate.sh

bench:
	@scripts/need.sh rust compiler c++ wrk oha hey nginx nghttpd h2load ghz erlang-tests python lab target:etcd
	scripts/bench-speed.py
	scripts/bench-http2.py
	scripts/bench-grpc.py
	scripts/bench-consistency.py
	scripts/bench-truth.py
	scripts/bench-scale.py
	scripts/bench-void.py
	scripts/bench-vsns.py
	scripts/bench-prices.py
	scripts/bench-lab.py
	scripts/bench-trust.py
	scripts/bench-beside.py

# Apart from the others, since it fetches Elasticsearch and Rally.
bench-rally:
	@scripts/need.sh rust compiler c++ python target:elasticsearch
	@targets/elasticsearch/hooks/install apply
	@[ -x target/tools/rally/bin/esrally ] || { python3 -m venv target/tools/rally && target/tools/rally/bin/pip install --quiet esrally==2.13.0; }
	scripts/bench-rally.py

nvdimm:
	@scripts/need.sh rust compiler nvdimm
	@cargo build --quiet --profile quick --locked --package plimsoll
	@scripts/nvdimm.sh target/quick/plimsoll target/tools/kernel

fuzz:
	@scripts/need.sh rust compiler c++
	@scripts/fuzz.sh $(TIME) $(TARGETS)

mutants:
	@scripts/need.sh rust compiler
	@scripts/mutants.py --seed $(SEED) --mutants $(MUTANTS)

siege:
	@scripts/need.sh rust compiler c++ lab ssh python nginx
	scripts/siege.py --soak $(SOAK) $(PARTS)

docs:
	PLIMSOLL_WRITE_REFERENCE=1 cargo test --quiet $(WHOLE) --test reference the_reference_matches

pages:
	@scripts/need.sh rust compiler chromium python axe
	mkdir -p target/pages
	PAGES=$(CURDIR)/target/pages cargo test --quiet --locked --package plimsoll-report --lib -- --ignored look
	scripts/pages.py --pictures target/pages target/pages/*.html

dist:
	@scripts/need.sh rust compiler c++
	@scripts/dist.sh

packages:
	@scripts/check-packages.sh

$(STUDIES): study-%:
	@scripts/need.sh rust compiler lab
	@cargo build --quiet --profile quick --locked --package plimsoll
	SHORT=$(SHORT) scripts/study.sh $*
