#!/usr/bin/env bash
# Checks whether the load engine of this tree is slower than that of an earlier revision. Builds
# both, runs them in turns against an echo server, and lets `plimsoll compare --gate` judge. Exits
# with 5 if this tree's engine is significantly worse, by 10 % or more, and with 7 if the turns are
# inconclusive (GATE_TURNS sets their number). Passes with a message if there is nothing to compare.
# Usage: gate.sh [BASE]; the default for BASE is where this branch left main, or HEAD~1.
set -euo pipefail
cd "$(dirname "$0")/.."

turns=${GATE_TURNS:-6}
seconds=${GATE_SECONDS:-3}
gate=${GATE_PERCENT:-10}
# Parts of the engine. A change elsewhere cannot make it slower.
engine=(crates/load crates/transport crates/wire crates/record crates/echo crates/conduct Cargo.lock Cargo.toml)
work=target/gate

pass() {
    echo "gate: $1" >&2
    exit 0
}

base_revision() {
    local main
    for main in "${1:-}" "${GATE_BASE:-}"; do
        [ -z "$main" ] || { git rev-parse --quiet --verify "$main^{commit}"; return; }
    done
    for main in origin/main main; do
        main=$(git merge-base HEAD "$main" 2>/dev/null) || continue
        [ "$main" = "$(git rev-parse HEAD)" ] || { echo "$main"; return; }
    done
    git rev-parse --quiet --verify 'HEAD~1^{commit}'
}

git rev-parse --git-dir >/dev/null 2>&1 || pass 'this is no git repository, so there is no earlier revision'
base=$(base_revision "$@") || {
    [ -z "${1:-}" ] || { echo "gate: no revision $1 in this clone" >&2; exit 2; }
    pass 'there is no earlier revision in this clone (a shallow one?)'
}
! git diff --quiet "$base" -- "${engine[@]}" || pass "the engine is that of ${base:0:12}: nothing to compare"

# Both are built alike, and faster than a release, because they are only compared with each other.
# Both use one folder, so that dependencies are built once, and get new modification times, by which
# cargo decides what to build. Packages outside of the engine are built without optimisation.
export CARGO_TARGET_DIR="$PWD/$work/target"
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_DEBUG=false CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_OPT_LEVEL=3
aside=()
for package in analysis experiment lab plimsoll report; do
    aside+=(--config "profile.release.package.$package.opt-level=0")
done
build() {
    echo "gate: building $1" >&2
    rm -rf "$work/source"
    mkdir -p "$work/source"
    tar --extract --touch --directory "$work/source"
    (cd "$work/source" && cargo build --quiet --release --locked --package plimsoll "${aside[@]}") || return
    cp "$CARGO_TARGET_DIR/release/plimsoll" "$work/plimsoll-$1"
}
rm -rf "$work/base" "$work/candidate"
mkdir -p "$work/base" "$work/candidate"
git archive "$base" | build base || pass "${base:0:12} does not build here"
git ls-files -z --cached --others --exclude-standard --deduplicate | tar --create --null --files-from - --ignore-failed-read |
    build candidate

for port in $(seq 18280 18380) none; do
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
done

# Both use the same kind of echo server, started by each run, so that its CPU counts as the
# target's. Its answers are delayed, so that the generator is not saturated and its CPU per
# operation can be measured. A saturated generator would make the result void.
cat >"$work/gate.toml" <<TOML
title = "gate"
asks  = "How much CPU does the generator take for the same load, and what latency does it see?"
[target]
start = "exec $PWD/$work/plimsoll-candidate echo --listen 127.0.0.1:$port --delay 0.002"
url   = "http://127.0.0.1:$port/"
[load]
agents  = 64
threads = 1
time    = "${seconds}s"
warmup  = "500ms"
[[load.cycle]]
call = "get"
with = { path = "/" }
TOML

# Outside of this tree, because an older program may not understand today's targets and profiles.
away=$(mktemp -d)
trap 'rm -rf "$away"' EXIT
root=$PWD
cp "$work/plimsoll-base" "$work/plimsoll-candidate" "$away"
turn() {
    (cd "$away" && "./plimsoll-$1" run "$root/$work/gate.toml" --out "$root/$work/$1" --accept --plain) \
        >/dev/null 2>"$work/$1.log" && return
    cat "$work/$1.log" >&2
    [ "$1" = candidate ] || pass "${base:0:12} cannot play this"
    exit 1
}
echo "gate: $turns turns each of ${base:0:12} and of this tree, $seconds s a turn" >&2
for number in $(seq "$turns"); do
    # A B, B A, A B, …: a machine that slows down steadily favours neither.
    if [ $((number % 2)) -eq 1 ]; then turn base && turn candidate; else turn candidate && turn base; fi
done

code=0
"$work/plimsoll-candidate" compare "$work/base" "$work/candidate" --gate "$gate%" --accept \
    --metric generator.cpu_pct --metric throughput.operations_per_s --metric latency_us.p50 \
    --junit "$work/gate.xml" --markdown "$work/gate.md" || code=$?
[ "$code" -ne 2 ] || pass 'the machine was too busy to measure on: no turn of one side could be used'
exit "$code"
