#!/usr/bin/env bash
# Runs the experiments of a study, one after the other, and writes one page with their first charts
# and links to their reports.
# study.sh NAME [EXPERIMENT…]; the default is the list in experiments/studies/NAME.toml.
#
# With SHORT=1 in the environment each experiment is run in its short form. Lines of its opening
# comment that begin with `# short:` have the options, such as
#     # short: --set load.time=20s --set 'sweep."load.agents"=[1, 8, 64]'
# An experiment without such a line is run in full.
#
# A run with a bad verdict, or whose target does not start, does not stop the others. A bad file
# stops them, before any run.
# Ctrl-C ends the run in good order and starts no other; the page then links the runs so far.
# Exits with the first of 130, 2, 1, 3, 4, 6, 5 that a run returned, or 0.
set -euo pipefail
cd "$(dirname "$0")/.."

plimsoll=${PLIMSOLL:-target/quick/plimsoll}
name=$1
shift
title=$name
experiments=("$@")
if [ ${#experiments[@]} -eq 0 ]; then
    study=$(cargo xtask study "$name")
    title=$(head -n 1 <<<"$study")
    mapfile -t experiments < <(tail -n +2 <<<"$study")
fi
out=${STUDY_RUNS:-runs}/study-$name-$(date +%Y-%m-%dT%H-%M-%S)

# short_form FILE: sets `sets` to the options of its short form. Quotes work as in a shell; nothing
# is expanded.
sets=()
short_form() {
    local words
    sets=()
    [ -n "${SHORT:-}" ] || return 0
    words=$(sed -n '/^[^#]/q; s/^# short:[[:space:]]*//p' "$1" | xargs --no-run-if-empty printf '%s\n') ||
        { echo "study: $1: its short form has an open quote" >&2; return 1; }
    [ -z "$words" ] || mapfile -t sets <<<"$words"
}

# Check all files before the first run.
bad=
for experiment in "${experiments[@]}"; do
    if ! short_form "$experiment" || ! "$plimsoll" check "$experiment" "${sets[@]}" >/dev/null; then
        bad=yes
    fi
done
[ -z "$bad" ] || exit 2

mkdir -p "$out"
interrupted=
signalled=
run=
stop() {
    interrupted=yes
    signalled=yes
    [ -z "$run" ] || kill -INT "$run" 2>/dev/null || true
}
trap stop INT TERM HUP

# play EXPERIMENT TEXT: sets `code`. The run has a separate process group, so that Ctrl-C reaches it
# once, through this script.
code=0
play() {
    set -m
    "$plimsoll" run "$1" --install --out "$out" "${sets[@]}" >"$2" </dev/null &
    run=$!
    set +m
    [ -z "$interrupted" ] || kill -INT "$run" 2>/dev/null || true
    while true; do
        signalled=
        code=0
        wait "$run" || code=$?
        [ -n "$signalled" ] || break
    done
    run=
}

codes=()
for experiment in "${experiments[@]}"; do
    [ -z "$interrupted" ] || break
    short_form "$experiment"
    part=$(basename "$experiment" .toml)
    echo "== $experiment ${sets[*]}" >&2
    play "$experiment" "$out/$part.txt"
    codes+=("$code")
    # Title and question, answer, verdict: the first three paragraphs of the summary.
    awk 'BEGIN { RS = ""; ORS = "\n\n" } NR <= 3' "$out/$part.txt"
    case $code in
        0) ;;
        5) echo "$part: a requirement was violated" >&2 ;;
        6) echo "$part: the result is void" >&2 ;;
        *) echo "$part: exit code $code" >&2 ;;
    esac
    if [ "$code" -eq 2 ] || [ "$code" -eq 130 ]; then
        break
    fi
done
[ -z "$interrupted" ] || codes+=(130)

# From here on Ctrl-C ends this script itself.
trap - INT TERM HUP
runs=()
for folder in "$out"/*/; do
    [ -f "$folder/plan.json" ] || continue
    if [ -f "$folder/analysis.json" ] && [ -f "$folder/report.html" ]; then
        runs+=("$folder")
    else
        echo "study: $folder has no report" >&2
    fi
done
if [ ${#runs[@]} -gt 0 ]; then
    printf 'The page: '
    "$plimsoll" contents "${runs[@]}" --title "$title" --out "$out/contents.html"
fi

for worst in 130 2 1 3 4 6 5; do
    for code in "${codes[@]}"; do
        [ "$code" -ne "$worst" ] || exit "$worst"
    done
done
# Any other code, such as that of a killed run.
for code in "${codes[@]}"; do
    [ "$code" -eq 0 ] || exit "$code"
done
