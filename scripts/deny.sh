#!/usr/bin/env bash
# Checks licences, bans and sources of all dependencies, and known vulnerabilities if the database
# can be reached.
# cargo-deny is built once, into target/tools, without optimisation: it runs for half a second.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.20.2
advisories=https://github.com/RustSec/advisory-db
deny=target/tools/bin/cargo-deny

if [ "$("$deny" --version 2>/dev/null)" != "cargo-deny $version" ]; then
    echo "building cargo-deny $version into target/tools" >&2
    CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_DEBUG=false \
        CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_TARGET_DIR=target/tools/build \
        cargo install --quiet --locked --no-default-features --force --root target/tools --version "$version" cargo-deny
    rm -rf target/tools/build
fi

"$deny" --locked check --hide-inclusion-graph licenses bans sources

if GIT_TERMINAL_PROMPT=0 timeout 20 git ls-remote --quiet "$advisories" HEAD >/dev/null 2>&1; then
    "$deny" --locked check --hide-inclusion-graph advisories
else
    echo "advisories were not checked: $advisories cannot be reached"
fi
