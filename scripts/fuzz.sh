#!/usr/bin/env bash
# Plays the fuzz targets with libFuzzer, as many at once as there are cores: fuzz.sh [SECONDS [TARGET…]]. Each for at most so long,
# 600 s if nothing is said, and with RUNS set for at most so many inputs; ends with 1 if one found something. What they hold is in crates/fuzzing. cargo-fuzz is built once, into
# target/tools. The targets are built by whatever Rust is there: libFuzzer itself asks for no nightly, only sanitizers would, and
# they would have no unsafe code to look at.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.13.2
seconds=${1:-600}
runs=${RUNS:--1}
[ $# -eq 0 ] || shift
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
    for file in fuzz/fuzz_targets/*.rs; do
        targets+=("$(basename "$file" .rs)")
    done
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
for target in "${targets[@]}"; do
    cargo fuzz build --fuzz-dir fuzz --sanitizer none --target-dir "$home" "$target"
done
host=$(rustc -vV | sed -n 's/^host: //p')

# one TARGET: what it finds lies in target/fuzz/found, what it learns in target/fuzz/corpus.
one() {
    local target=$1 corpus=$home/corpus/$1 log=$home/$1.log
    mkdir -p "$corpus" "$home/found"
    if "$home/$host/release/$target" "$corpus" "fuzz/corpus/$target" -artifact_prefix="$home/found/$target-" \
        -max_total_time="$seconds" -runs="$runs" -max_len=16384 -timeout=30 -rss_limit_mb=2048 -print_final_stats=1 >"$log" 2>&1; then
        echo "$target: nothing found in $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs"
    else
        tail -n 40 "$log"
        echo "$target: found something; the input is named above. Put it into fuzz/corpus/$target, and \`cargo test -p fuzzing\` has it"
        return 1
    fi
}
export -f one
export home host seconds runs
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I '{}' bash -c 'one {}'
