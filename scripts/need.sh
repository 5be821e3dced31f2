#!/usr/bin/env bash
# Installs what a make target needs: need.sh NEED…  Prints nothing if nothing is missing. Installs
# Debian packages if possible (root, apt-get). Otherwise it prints the command for it and stops.
set -euo pipefail

# The oldest Rust that builds the workspace.
wanted_rust=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$(dirname "$0")/../Cargo.toml")

tools=$(cd "$(dirname "$0")/.." && pwd)/target/tools
missing=()
from_cargo=()
from_go=()
from_npm=()

rust() {
    local found
    if ! command -v cargo >/dev/null; then
        echo "Rust is missing. Plimsoll needs Rust $wanted_rust or later; https://rustup.rs installs it:" >&2
        echo "    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh" >&2
        echo "and then, in this shell:   . ~/.cargo/env" >&2
        exit 1
    fi
    found=$(cargo --version | cut -d ' ' -f 2)
    if [ "$(printf '%s\n' "$wanted_rust" "${found%%-*}" | sort -V | head -n 1)" != "$wanted_rust" ]; then
        echo "Rust $found is too old: Plimsoll needs $wanted_rust or later. To update it:" >&2
        echo "    rustup update stable" >&2
        exit 1
    fi
}

# program NAME PACKAGE
program() {
    command -v "$1" >/dev/null || missing+=("$2")
}

# One start of the virtual machine finds all missing Erlang applications.
erlang() {
    local application
    if ! command -v erl >/dev/null; then
        set -- "${@/#/erlang-}"
        missing+=(erlang-base "${@//_/-}")
        return
    fi
    for application in $(erl -noshell -eval '
        [io:format("~s ", [A]) || A <- init:get_plain_arguments(),
            code:lib_dir(list_to_atom(A)) =:= {error, bad_name}], halt().' -extra "$@"); do
        missing+=("erlang-${application//_/-}")
    done
}

# header APPLICATION PACKAGE: Debian has some of Erlang's header files in separate packages.
header() {
    erl -noshell -eval '
        halt(case filelib:wildcard(filename:join([code:lib_dir(), "'"$1"'-*", include, "'"$1"'.hrl"])) of [] -> 1; _ -> 0 end).
    ' 2>/dev/null || missing+=("$2")
}

# target NAME: packages that are missing according to the target's own hook.
target() {
    local package packages
    packages=$("$(dirname "$0")/../targets/$1/hooks/install" packages)
    for package in $packages; do
        missing+=("$package")
    done
}

for need in "$@"; do
    case $need in
        rust) rust ;;
        compiler) program cc gcc; [ -e /usr/include/stdio.h ] || missing+=(libc6-dev) ;;
        # For the interpreter of scripts (feature `scripts`).
        c++) program c++ g++ ;;
        erlang-tests)
            erlang mnesia eunit proper
            header eunit erlang-dev
            header proper erlang-proper-dev
            program rebar3 rebar3
            program make make
            ;;
        erlang-checks)
            erlang mnesia mochiweb dialyzer tools
            program rebar3 rebar3
            ;;
        docket)
            program rebar3 rebar3
            erlang eunit common_test
            header eunit erlang-dev
            target docket
            ;;
        # The hook is missing for an experiment whose target is not in this tree.
        target:*) [ ! -x "$(dirname "$0")/../targets/${need#target:}/hooks/install" ] || target "${need#target:}" ;;
        # Debian's Python, which the tests use: another one may come first in the path.
        python-grpc) /usr/bin/python3 -c 'import grpc, google.protobuf' 2>/dev/null || missing+=(python3-grpcio python3-protobuf) ;;
        python) python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv) ;;
        make) program make make ;;
        curl) program curl curl ;;
        shellcheck) program shellcheck shellcheck ;;
        # Tools that make and measure virtual hosts, their faults and their storage.
        lab)
            program ip iproute2
            program nft nftables
            program mkfs.ext4 e2fsprogs
            program fio fio
            ;;
        # Real machines over ssh, for the tests.
        ssh) program ssh openssh-client; [ -x /usr/sbin/sshd ] || missing+=(openssh-server) ;;
        # A virtual machine with persistent memory, and its content.
        nvdimm)
            program qemu-system-x86_64 qemu-system-x86
            program ndctl ndctl
            program fio fio
            program mkfs.ext4 e2fsprogs
            program busybox busybox-static
            program cpio cpio
            program depmod kmod
            ;;
        wrk) program wrk wrk ;;
        # Peers that Debian lacks, or lacks in some releases, are built from source into
        # target/tools.
        oha) [ -x "$tools/bin/oha" ] || command -v oha >/dev/null || from_cargo+=(oha) ;;
        hey)
            if [ -x "$tools/bin/hey" ] || command -v hey >/dev/null; then :
            elif command -v go >/dev/null; then from_go+=(github.com/rakyll/hey@latest)
            else missing+=(hey)
            fi
            ;;
        ghz) [ -x "$tools/bin/ghz" ] || command -v ghz >/dev/null || ! command -v go >/dev/null || from_go+=(github.com/bojand/ghz/cmd/ghz@v0.121.0) ;;
        chromium) program chromium chromium ;;
        # Without npm, pages are still opened, and the output says what was not checked.
        axe) [ -e "$tools/axe/node_modules/axe-core/axe.min.js" ] || ! command -v npm >/dev/null || from_npm+=(axe-core@4.10.3) ;;
        memcached) program memcached memcached ;;
        h2load) program h2load nghttp2-client ;;
        nghttpd) [ -x /usr/sbin/nghttpd ] || program nghttpd nghttp2-server ;;
        # Debian's Python has Debian's modules.
        websockets) /usr/bin/python3 -c 'import websockets' 2>/dev/null || missing+=(python3-websockets) ;;
        nginx) [ -x /usr/sbin/nginx ] || program nginx nginx-light ;;
        *) echo "need.sh: unknown need: $need" >&2; exit 2 ;;
    esac
done

# If this fails the benchmark goes on: a missing peer is left out, as the page notes.
for crate in ${from_cargo[@]+"${from_cargo[@]}"}; do
    echo "building $crate into target/tools, which takes a few minutes" >&2
    cargo install --quiet --locked --root "$tools" "$crate" || echo "$crate cannot be built here" >&2
done
for package in ${from_go[@]+"${from_go[@]}"}; do
    echo "building $package into target/tools" >&2
    GOBIN="$tools/bin" go install "$package" || echo "$package cannot be built here" >&2
done
for package in ${from_npm[@]+"${from_npm[@]}"}; do
    echo "fetching $package into target/tools" >&2
    npm install --silent --no-package-lock --no-fund --no-audit --prefix "$tools/axe" "$package" || echo "$package cannot be fetched here" >&2
done

[ ${#missing[@]} -eq 0 ] && exit 0

# Several needs may name the same package.
mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort --unique)
install=(apt-get install --yes --no-install-recommends "${missing[@]}")
if ! command -v apt-get >/dev/null; then
    echo "Missing (by the names of their Debian packages): ${missing[*]}" >&2
    exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "Missing: ${missing[*]}. To install them:" >&2
    echo "    sudo apt-get update && sudo ${install[*]}" >&2
    exit 1
fi
echo "installing ${missing[*]}" >&2
"$(dirname "$0")/debian-packages.sh" "${missing[@]}"
