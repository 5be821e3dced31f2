#!/usr/bin/env bash
# Plays the real servers for a minute each: test-targets.sh PLIMSOLL [TARGET…]. Installs what they
# need (root, network).
#
# A run must end with 0, 5 (a requirement) or 6 (a void result: the machine is busy), and at least
# one operation must be ok. This is no measurement. The last line lists the targets that failed.
set -euo pipefail
cd "$(dirname "$0")/.."

plimsoll=$1
shift
[ $# -gt 0 ] || set -- elasticsearch opensearch pacemaker redis
runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT
failed=()

# played TARGET: prints the result of its minute, and fails if the result is bad.
played() {
    local folder=$1 code=0 ok
    local -a other=()
    [ "$1" != opensearch ] || folder=elasticsearch other=(--set target.use=opensearch)
    "$plimsoll" run "targets/$folder/test/minute.toml" --install --plain --out "$runs/$1" ${other[@]+"${other[@]}"} >"$runs/$1.log" 2>&1 || code=$?
    ok=$(python3 -c 'import glob, json, sys
print(sum(trial["outcomes"]["ok"] for path in glob.glob(sys.argv[1] + "/*/analysis.json") for trial in json.load(open(path))["trials"]))' "$runs/$1") || ok=0
    echo "$1: exit $code, $ok operations ok"
    case $code in 0 | 5 | 6) [ "$ok" -gt 0 ] && return ;; esac
    tail -n 30 "$runs/$1.log"
    return 1
}

for target in "$@"; do
    played "$target" || failed+=("$target")
done
[ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}"; exit 1; }
