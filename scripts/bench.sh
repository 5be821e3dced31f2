#!/usr/bin/env bash
# Plimsoll beside wrk on the same server, on the same machine, taking turns: requests per second, and requests per second of
# the generator's own CPU time. Writes bench/RESULTS.md. bench.sh [SECONDS] [TURNS]
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-10}
turns=${2:-3}
connections=64
plimsoll=target/release/plimsoll
out=bench/RESULTS.md

cargo build --quiet --release --locked --package plimsoll
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT

# A server of our own, on the first port that is free.
for port in $(seq 18080 18180); do
    "$plimsoll" echo --listen "127.0.0.1:$port" >"$work/echo.log" 2>&1 &
    server=$!
    for _ in $(seq 50); do
        kill -0 "$server" 2>/dev/null || break
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break 2
        sleep 0.1
    done
    kill "$server" 2>/dev/null || true
    server=
done
[ -n "$server" ] || { cat "$work/echo.log" >&2; exit 1; }
url="http://127.0.0.1:$port/"

cat >"$work/bench.toml" <<TOML
title = "bench"
asks  = "How fast is the generator?"
[target]
url = "$url"
[load]
agents  = $connections
threads = 1
time    = "${seconds}s"
warmup  = "0s"
[[load.cycle]]
call = "get"
with = { path = "/" }
TOML

# Each prints: requests/s, CPU seconds of the generator.
turn_wrk() {
    local TIMEFORMAT='%U %S' log="$work/wrk.log"
    { time wrk --threads 1 --connections "$connections" --duration "${seconds}s" "$url" >"$log"; } 2>"$work/wrk.time"
    echo "$(awk '/^Requests\/sec/ { print $2 }' "$log") $(awk '{ print $1 + $2 }' "$work/wrk.time")"
}

turn_plimsoll() {
    local runs="$work/runs.$1"
    "$plimsoll" run "$work/bench.toml" --out "$runs" --accept --json >"$work/plimsoll.json" 2>/dev/null
    # The engine's threads, from their own records: analysis and report come after the load and are not the generator.
    awk -F, -v seconds="$seconds" '
        NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
        { cpu += $column["cpu_pct"] / 100 * $column["interval_s"]; operations += $column["operations"] }
        END { print operations / seconds, cpu }' "$runs"/*/trials/001/generator.csv
}

echo "$turns turns of $seconds s each, of wrk and of Plimsoll, at $connections connections and 1 thread" >&2
for turn in $(seq "$turns"); do
    read -r wrk_rate wrk_cpu < <(turn_wrk)
    read -r our_rate our_cpu < <(turn_plimsoll "$turn")
    echo "$turn $wrk_rate $wrk_cpu $our_rate $our_cpu"
done | tee "$work/turns" >&2

median() {
    sort -n | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}
ratio=$(awk '{ print $4 / $2 }' "$work/turns" | median)
per_cpu=$(awk '{ print ($4 / $5) / ($2 / $3) }' "$work/turns" | median)

mkdir -p bench
{
    echo '# Results of `make bench`'
    echo
    echo "\`wrk\` and Plimsoll, taking turns, one generator thread each, $connections connections without think time, $seconds s a"
    echo 'turn, against the same built-in echo server (`plimsoll echo`, HTTP/1.1, keep-alive) over loopback.'
    echo
    echo "Median over $turns turns, Plimsoll against wrk: **$(printf %.2f "$ratio") times** the requests per second,"
    echo "**$(printf %.2f "$per_cpu") times** the requests per second of the generator's CPU time."
    echo
    echo '| turn | wrk, requests/s | wrk, CPU s | Plimsoll, requests/s | Plimsoll, CPU s |'
    echo '|---|---|---|---|---|'
    awk '{ printf "| %d | %.0f | %.2f | %.0f | %.2f |\n", $1, $2, $3, $4, $5 }' "$work/turns"
    echo
    echo 'Generator and server share the machine, so the rates are those of the pair, and the server may be the bottleneck.'
    echo "Plimsoll's CPU is that of its engine's threads while the load lasts; wrk's is that of the whole process."
    echo
    echo '| | |'
    echo '|---|---|'
    echo "| CPU | $(nproc) × $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1) |"
    echo "| kernel | $(uname -sr) |"
    echo "| wrk | $(wrk --version 2>&1 | awk 'NR == 1 { print $2 }') |"
    echo "| Plimsoll | $("$plimsoll" --version | awk '{ print $2 }') |"
    echo "| Rust | $(rustc --version | awk '{ print $2 }') |"
    echo "| date | $(date --utc +%F) |"
} >"$out"
cat "$out"
