#!/usr/bin/env bash
# check-packages.sh [--short | --debug]: installs plimsoll from its packages alone, as `cargo
# install --locked plimsoll` does from a registry, and runs it without a checkout: hit, an
# experiment without installation, and an experiment that installs its target (as root).
# The packages and their dependencies are the directory source target/packages/source. --short makes
# the packages and stops. --debug installs without optimisation, which takes a fraction of the time.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/need.sh rust compiler

work=$PWD/target/packages
source=$work/source
rm -rf "$source"
mkdir -p "$work"

# fixture, fuzzing and xtask are not published.
cargo package --quiet --locked --no-verify --allow-dirty --workspace --exclude fixture --exclude fuzzing --exclude xtask
[ "${1:-}" != --short ] || exit 0

cargo vendor --quiet --locked "$source" >/dev/null
version=$(sed -n 's/^version *= *"\(.*\)"/\1/p' Cargo.toml | head -n 1)
for package in target/package/plimsoll*-"$version".crate; do
    name=$(basename "$package" .crate)
    tar --extract --gzip --file "$package" --directory "$source"
    printf '{"files":{},"package":"%s"}' "$(sha256sum "$package" | cut -d ' ' -f 1)" >"$source/$name/.cargo-checksum.json"
done

# Outside of the checkout, because the program also searches the folders above it for targets and
# profiles.
home=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$home"' EXIT
# In a folder without a Cargo.toml, so that the workspace's profiles do not apply.
(cd "$home" && CARGO_TARGET_DIR=$work/build cargo install --quiet ${1:+"$1"} --locked --offline --root "$home" \
    --config 'source.crates-io.replace-with="packages"' --config "source.packages.directory=\"$source\"" plimsoll)

export HOME=$home PLIMSOLL_DATA=$home/data PATH=$home/bin:$PATH
cd "$home"
plimsoll --version
for port in $(seq 18480 18580); do
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
done
plimsoll echo --listen "127.0.0.1:$port" >/dev/null &
server=$!
until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
    kill -0 "$server"
    sleep 0.1
done
# A busy machine may make the result void. Only the presence of a result matters here.
plimsoll hit "http://127.0.0.1:$port/" -t 3s --accept
kill "$server" && server=
plimsoll run 01-first-run --accept
plimsoll run 03-name-service-crash --install --accept
echo "the packages of plimsoll $version work without the checkout"
