#!/usr/bin/env bash
# check-hlog.sh PLIMSOLL: plays two short experiments with this binary, and opens their load.hlog
# with an independent reader (PyPI's hdrhistogram). It must read every interval, and the totals must
# be those of analysis.json.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.10.8
python=target/tools/python/bin/python

if ! "$python" -c 'import hdrh' 2>/dev/null; then
    python3 -m venv target/tools/python
    "$python" -m pip install --quiet --disable-pip-version-check "hdrhistogram==$version"
fi

plimsoll=$1
runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT

play() {
    # The debug build is slow, which may spoil figures but not their sums: hence --accept.
    if ! "$plimsoll" run "$@" --out "$runs" --accept --json >/dev/null 2>"$runs/said"; then
        cat "$runs/said" >&2
        exit 1
    fi
}

play experiments/01-first-run.toml --set load.time=3s
play experiments/03-name-service-crash.toml --install --set load.time=8s --set load.ramp=1s --set fault.oops.at=4s
for run in "$runs"/*/; do
    "$python" scripts/check_hlog.py "$run"
done

# Canary: a missing interval must be noticed.
sed -i '0,\,/ok/latency,{\,/ok/latency,d}' "$run/trials/001/load.hlog"
if "$python" scripts/check_hlog.py "$run" >/dev/null; then
    echo "check_hlog did not report a missing interval" >&2
    exit 1
fi
