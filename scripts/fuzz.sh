#!/usr/bin/env bash
# Runs the fuzz targets with libFuzzer, one on each core: fuzz.sh [SECONDS [TARGET…]]. Each runs for
# at most SECONDS, 600 by default, and for at most RUNS inputs if that is set. Exits with 1 if a
# target found a failure. crates/fuzzing has their code. cargo-fuzz is built once, into
# target/tools. The targets need no nightly Rust: only sanitizers would, and there is no unsafe code
# for them to check.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.13.2
seconds=${1:-600}
runs=${RUNS:--1}
[ $# -eq 0 ] || shift
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
    mapfile -t targets < <(basename -a fuzz/corpus/* crates/wire/src/protocols/*/ | sort -u)
fi

export PATH="$PWD/target/tools/bin:$PATH"
if [ "$(cargo-fuzz --version 2>/dev/null)" != "cargo-fuzz $version" ]; then
    echo "building cargo-fuzz $version into target/tools" >&2
    CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
        CARGO_TARGET_DIR=target/tools/build \
        cargo install --quiet --locked --force --root target/tools --version "$version" cargo-fuzz
    rm -rf target/tools/build
fi

home=target/fuzz
cargo fuzz build --fuzz-dir fuzz --sanitizer none --target-dir "$home" any
host=$(rustc -vV | sed -n 's/^host: //p')

# one TARGET: failures go to target/fuzz/found, and new inputs to target/fuzz/corpus.
one() {
    local target=$1 corpus=$home/corpus/$1 log=$home/$1.log
    mkdir -p "$corpus" "$home/found" "fuzz/corpus/$target"
    if FUZZ_TARGET=$target "$home/$host/release/any" "$corpus" "fuzz/corpus/$target" -artifact_prefix="$home/found/$target-" \
        -max_total_time="$seconds" -runs="$runs" -max_len=16384 -timeout=30 -rss_limit_mb=2048 -print_final_stats=1 >"$log" 2>&1; then
        echo "$target: no failure in $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs"
    else
        tail -n 40 "$log"
        echo "$target: found a failure with the input named above; put it into fuzz/corpus/$target, so that \`cargo test -p fuzzing\` tests it"
        return 1
    fi
}
export -f one
export home host seconds runs
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I '{}' bash -c 'one {}'
