#!/usr/bin/env bash
# Holds cargo-tests.py, which plays tests a second time, to what it must never let pass: its canary. In a crate of its own.
set -euo pipefail
cd "$(dirname "$0")/.."

crate=$(mktemp -d)
trap 'rm -rf "$crate"' EXIT
mkdir -p "$crate/scripts" "$crate/src" "$crate/tests"
cp scripts/cargo-tests.py "$crate/scripts"
cd "$crate"
printf '[package]\nname = "canary"\nversion = "0.1.0"\nedition = "2024"\n[workspace]\n' >Cargo.toml
cat >src/lib.rs <<'RUST'
#[cfg(test)]
fn is_there(file: &str) -> bool { std::path::Path::new(file).exists() }
#[test]
fn fails_once() { if !is_there("again") { std::fs::write("again", "").unwrap(); println!("failures:\n    a_word\n"); panic!(); } }
#[test]
fn fails_always() { assert!(!is_there("broken")); }
RUST
cat >tests/other.rs <<'RUST'
#[test]
fn ends_the_program() { if std::path::Path::new("abort").exists() { std::process::abort() } }
RUST
cargo generate-lockfile --quiet

# expect passes|fails AGAIN FILE…: what is there when the tests are played.
expect() {
    local wanted=$1 again=$2 said=passes
    shift 2
    rm -f again broken abort
    [ $# -eq 0 ] || touch "$@"
    AGAIN=$again CARGO_TARGET_DIR=target scripts/cargo-tests.py --workspace >said 2>&1 || said=fails
    [ "$said" = "$wanted" ] && return
    cat said >&2
    echo "cargo-tests.py $said with AGAIN=$again and these: $*" >&2
    exit 1
}
expect passes 0 again
expect fails 0
expect passes 1
expect fails 1 broken
expect fails 3 again broken
expect fails 3 again abort
expect fails 3 abort
echo 'fn' >>src/lib.rs
expect fails 3 again
