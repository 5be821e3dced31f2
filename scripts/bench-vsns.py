#!/usr/bin/env python3
"""Measures the operations per second that the name service takes on one core. Agents in a closed
loop save, load and remove a name, with more and more agents on a connection. Server and
generator are pinned to a CPU each. Writes a section of bench/RESULTS.md.
"""

import statistics
import subprocess
import sys

import bench_page
from bench_stage import ROOT, Failed, arguments, bench, free_port

# Total number of agents, and numbers of agents on a connection. With the full number there is one
# connection.
AGENTS = [64, 256, 1000]
PIPELINES = [1, 4, 16, 64]
WANTED_PER_S = 100_000
HOME = ROOT / "targets/vsns"

EXPERIMENT = """
title = "calls of the name service"
asks  = "How many does a core take?"
[target]
start = "exec taskset --cpu-list {cpu} {home}/bin/vsns --port {port} --schedulers 1"
url   = "vsns://127.0.0.1:{port}"
[load]
agents   = {agents}
pipeline = {pipeline}
threads  = 1
time     = "{milliseconds}ms"
warmup   = "500ms"
[[load.cycle]]
call = "save"
with = {{ space = "agent-{{agent}}", key = "name-{{seq%100}}", value = "{{bytes:100}}" }}
keep = {{ saved = "request.value" }}
[[load.cycle]]
call   = "load"
with   = {{ space = "agent-{{agent}}", key = "name-{{seq%100}}" }}
expect = {{ value = "{{saved}}" }}
[[load.cycle]]
call = "remove"
with = {{ space = "agent-{{agent}}", key = "name-{{seq%100}}" }}
"""


def build():
    built = subprocess.run(["make", "--silent", "-C", HOME], capture_output=True, text=True)
    if built.returncode != 0:
        raise Failed(f"the name service cannot be built:\n{built.stderr}")


def turn(stage, agents, pipeline, seconds):
    """Plays a load on its own server. Returns operations/s, p99, the CPU time of engine and server for an operation, their CPU use, and the failures."""
    load = {"agents": agents, "pipeline": pipeline, "milliseconds": round(seconds * 1000)}
    trial = stage.play(EXPERIMENT.format(cpu=stage.server_cpu, home=HOME, port=free_port(), **load), cpu=stage.generator_cpu)
    if trial.operations == 0:
        raise Failed(f"no operation was answered: {trial.results['verdict']}")
    outcomes = trial.results["outcomes"]
    calls, engine_s, server_s = trial.operations, trial.engine_cpu_s, trial.process_cpu_s("target", seconds)
    system_s = trial.process_cpu_s("target", seconds, ["system"])
    return {
        "per_s": trial.results["throughput"]["operations_per_s"],
        "p99_us": (trial.results["latency_us"] or {}).get("p99"),
        "engine_us": engine_s / calls * 1e6,
        "server_us": None if server_s is None else server_s / calls * 1e6,
        "system_us": None if system_s is None else system_s / calls * 1e6,
        "engine_pct": 100 * engine_s / seconds,
        "server_pct": None if server_s is None else 100 * server_s / seconds,
        "failed": sum(outcomes[name] for name in ["failed", "timeout", "wrong"]),
    }


def median(turns, figure):
    known = [turn[figure] for turn in turns if turn[figure] is not None]
    return statistics.median(known) if known else None


def measure(stage, given):
    build()
    ways = [(agents, pipeline) for agents in AGENTS for pipeline in PIPELINES]
    turns = {way: [] for way in ways}
    for number in range(given.turns):
        for way in ways:
            came = turn(stage, *way, given.seconds)
            turns[way].append(came)
            told = f"{way[0]} agents, {way[1]} to a connection, turn {number + 1}: {bench_page.shown(came['per_s'])} calls/s"
            print(told, file=sys.stderr, flush=True)
    figures = ["per_s", "p99_us", "engine_us", "server_us", "system_us", "engine_pct", "server_pct"]
    rows = []
    for (agents, pipeline), came in turns.items():
        failed = sum(turn["failed"] for turn in came)
        rows.append([f"{agents} agents", pipeline, -(-agents // pipeline), *[median(came, figure) for figure in figures], failed])
    best = max((row for row in rows if row[1] > 1), key=lambda row: row[3] or 0)
    alone = max((row for row in rows if row[1] == 1), key=lambda row: row[3] or 0)
    met = "met" if (best[3] or 0) >= WANTED_PER_S else "not met"
    heads = ["", "to a connection", "connections", "calls/s", "p99, µs", "engine, µs CPU per call", "server, µs", "in its kernel, µs"]
    lines = [
        "Agents save, load and remove names of 100 bytes, without pauses, and check each answer; the server has one scheduler and one CPU, the",
        f"generator another. Medians of {given.turns} turns of {given.seconds:g} s.",
        "",
        f"- pipelined, the most: **{bench_page.shown(best[3])} calls/s**, {best[0]}, {best[1]} to a connection; wanted {WANTED_PER_S:,}: "
        f"**{met}**. The engine took {bench_page.shown(best[8])} % of its CPU for it, the server {bench_page.shown(best[9])} % of its own",
        f"- a connection for each agent, the most: {bench_page.shown(alone[3])} calls/s, {alone[0]}",
        "",
        *bench_page.table([*heads, "engine, % of its CPU", "server, %", "failed"], rows),
        "",
        f"Erlang/OTP {bench_page.said(['erl', '-noshell', '-eval', 'io:put_chars(erlang:system_info(otp_release)), halt().'])}.",
    ]
    bench_page.write("The name service", lines, given)


if __name__ == "__main__":
    bench(measure, arguments(__doc__, seconds=5, turns=3))
