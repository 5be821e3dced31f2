#!/usr/bin/env bash
# The Pi article in short form: plays experiments/07 to 13, 22 and 24, one after the other and writes one page that links their reports.
# article-pi.sh [EXPERIMENT…]
#
# How an experiment is shortened stands in its opening comment, in lines that begin `# short:`, such as
#     # short: --set load.time=20s --set 'sweep."load.agents"=[1, 8, 64]'
# A run whose verdict is bad, or whose target does not start, does not stop the others; a bad file does, before anything is played.
# Ctrl-C ends the run in good order and starts no other; the page then links what there is.
# Exits with the first of 130, 2, 1, 3, 4, 6, 5 that a run came to, or 0.
set -euo pipefail
cd "$(dirname "$0")/.."

plimsoll=${PLIMSOLL:-target/quick/plimsoll}
out=${ARTICLE_RUNS:-runs}/article-pi-$(date +%Y-%m-%dT%H-%M-%S)
experiments=("$@")
if [ ${#experiments[@]} -eq 0 ]; then
    shopt -s nullglob
    experiments=(experiments/07*.toml experiments/08*.toml experiments/09*.toml experiments/1[0-3]*.toml experiments/22*.toml experiments/24*.toml)
fi
if [ ${#experiments[@]} -eq 0 ]; then
    echo 'article-pi: there is no experiment to play' >&2
    exit 2
fi

# The words of an experiment's short form, a line each: quoted as in a shell, with nothing expanded.
short() {
    sed -n '/^[^#]/q; s/^# short:[[:space:]]*//p' "$1" | xargs --no-run-if-empty printf '%s\n'
}

# short_form FILE: sets `sets`; fails, saying why, if FILE has none.
sets=()
short_form() {
    local words index
    words=$(short "$1") || { echo "article-pi: $1: its short form has an open quote" >&2; return 1; }
    sets=()
    [ -z "$words" ] || mapfile -t sets <<<"$words"
    if [ ${#sets[@]} -eq 0 ]; then
        echo "article-pi: $1: no line of its opening comment begins \`# short: --set …\`" >&2
        return 1
    fi
    for index in "${!sets[@]}"; do
        if [ $((index % 2)) -eq 0 ] && [ "${sets[index]}" != --set ] || [ $((${#sets[@]} % 2)) -ne 0 ]; then
            echo "article-pi: $1: its short form is not a list of --set PATH=VALUE: ${sets[*]}" >&2
            return 1
        fi
    done
}

# Everything that is wrong with any file, before the first is played.
bad=
for experiment in "${experiments[@]}"; do
    if [ ! -f "$experiment" ]; then
        echo "article-pi: there is no file $experiment" >&2
        bad=yes
    elif ! short_form "$experiment" || ! "$plimsoll" check "$experiment" "${sets[@]}" >/dev/null; then
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

# play EXPERIMENT NUMBER: sets `code`. The run has a process group of its own, so that a Ctrl-C reaches it once, through us.
code=0
play() {
    set -m
    "$plimsoll" run "$1" --install --out "$out" "${sets[@]}" >"$out/$2.txt" </dev/null &
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
    name=$(basename "$experiment" .toml)
    echo "== $experiment ${sets[*]}" >&2
    play "$experiment" "$name"
    codes+=("$code")
    # Title and question, answer, verdict: the first three paragraphs of the summary.
    awk 'BEGIN { RS = ""; ORS = "\n\n" } NR <= 3' "$out/$name.txt"
    case $code in
        0) ;;
        5) echo "$name: a requirement was violated" >&2 ;;
        6) echo "$name: the result is void" >&2 ;;
        *) echo "$name: exit code $code" >&2 ;;
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
        echo "article-pi: $folder has no report" >&2
    fi
done
if [ ${#runs[@]} -gt 0 ]; then
    title="The Pi article: a court's case register, a cluster against a big machine"
    printf 'The page: '
    "$plimsoll" contents "${runs[@]}" --title "$title" --out "$out/contents.html"
fi

for worst in 130 2 1 3 4 6 5; do
    for code in "${codes[@]}"; do
        [ "$code" -ne "$worst" ] || exit "$worst"
    done
done
# A code that nobody foresaw, such as that of a run that was killed.
for code in "${codes[@]}"; do
    [ "$code" -eq 0 ] || exit "$code"
done
