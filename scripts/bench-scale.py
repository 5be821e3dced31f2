#!/usr/bin/env python3
"""Measures 50,000 agents on this machine: the memory of an idle agent, the time to connect, and the
CPU time at the highest rate that two CPUs carry, one for the engine and one for the server. If a
process may not open enough files, even as root, several processes share the agents. Writes a
section of bench/RESULTS.md.
"""

import resource
import statistics
import sys

import bench_page
from bench_stage import Failed, arguments, bench

AGENTS = 50_000
FEW = 100
WANTED_BYTES = 4096
# Files that a process needs besides its connections, with a margin.
OTHERS = 500
# A run with more connections than an address has ports uses several addresses by itself. Smaller
# runs need this line.
SOURCES = 'from = ["127.0.0.2", "127.0.0.3", "127.0.0.4"]'
# Pauses of an agent, seconds. Each step at least doubles the rate.
THINK_S = [10, 5, 2.5, 1, 0.5, 0.25]
# A rate is carried if at least this share of it is reached.
CARRIED = 0.95

EXPERIMENT = """
title = "scale"
asks  = "What do so many agents take?"
[target]
{target}
[load]
agents  = {agents}
threads = 1
think   = "{think}"
ramp    = "{ramp_ms}ms"
time    = "{time_ms}ms"
drain   = "2s"
timeout = "30s"
warmup  = "0s"
{more}
[[load.cycle]]
call = "get"
with = {{ path = "/" }}
"""


def parts():
    """Returns the number of processes that are needed because of the limit on open files."""
    wanted = AGENTS + OTHERS
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard in range(wanted):
        try:
            # Root may raise the limit, unless it lacks CAP_SYS_RESOURCE. Started programs inherit
            # the limit.
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
        except (ValueError, OSError):
            return -(-AGENTS // (hard - OTHERS))
    return 1


def play(stage, agents, count, **times):
    """Plays this number of agents in `count` runs at the same time, each with its own server."""
    shares = [agents // count + (number < agents % count) for number in range(count)]
    texts = []
    for number, share in enumerate(shares):
        target = stage.own_echo(place=number)
        texts.append(EXPERIMENT.format(target=target, agents=share, more=SOURCES if count > 1 else "", **times))
    return stage.play_together(texts, cpu=stage.generator_cpu)


def rss_bytes(trials):
    """Returns the memory of the whole programs while all agents rest: medians over the second half of the load."""
    sizes = [[int(row["rss_bytes"]) for row in trial.samples("generator") if row["rss_bytes"]] for trial in trials]
    if not all(sizes):
        raise Failed("there is no sample of the generator: use a load of at least two seconds")
    return sum(statistics.median(of[len(of) // 2 :]) for of in sizes)


def counted(trials, column):
    return sum(int(row[column]) for trial in trials for row in trial.rows("generator.csv"))


def highest(trials, quantile):
    """Returns the highest latency of the trials, milliseconds."""
    known = [trial.results["latency_us"][quantile] for trial in trials if trial.results["latency_us"]]
    return max((us / 1e3 for us in known if us is not None), default=None)


def at_rest(stage, count, seconds):
    """Returns the lines about memory and connecting. The agents connect at once, do one operation and rest."""
    times = {"think": "1h", "ramp_ms": 0, "time_ms": round(seconds * 1000)}
    few, many = (play(stage, agents, count, **times) for agents in [FEW * count, AGENTS])
    ok = sum(trial.results["outcomes"]["ok"] for trial in many)
    each = (rss_bytes(many) - rss_bytes(few)) / (AGENTS - FEW * count)
    met = "not measured, for not all had an answer" if ok < AGENTS else "met" if each <= WANTED_BYTES else "not met"
    lines = [
        f"- memory of an idle agent: **{each:.0f} bytes** ({rss_bytes(many) / 2**20:.0f} MiB with {AGENTS:,} agents, {rss_bytes(few) / 2**20:.0f} "
        f"with {FEW * count}); wanted {WANTED_BYTES} at most: **{met}**",
        f"- connecting, all at once: {counted(many, 'connects'):,} connections, {counted(many, 'connect_failures'):,} failed; half of the "
        f"agents had their first answer after {bench_page.shown(highest(many, 'p50'))} ms, the last one after "
        f"**{bench_page.shown(highest(many, 'max'))} ms**; {ok:,} of {AGENTS:,} operations `ok`",
    ]
    return lines + [f"- {notice}" for notice in many[0].notices if "local addresses" in notice]


def at_pace(stage, count, think_s, seconds):
    """Returns a row of the table, and whether the rate was reached."""
    # The start over a whole pause spreads the agents evenly.
    until_s = think_s + seconds
    times = {"think": f"{think_s * 1000:.0f}ms", "ramp_ms": round(think_s * 1000), "time_ms": round(until_s * 1000)}
    trials = play(stage, AGENTS, count, **times)
    per_s = cpu_pct = 0.0
    for trial in trials:
        rows = [row for row in trial.rows("generator.csv") if think_s + 0.999 < float(row["at_s"]) <= until_s + 0.001]
        length_s = sum(float(row["interval_s"]) for row in rows)
        if length_s == 0:
            raise Failed("the load has no whole second to measure: use a longer one")
        per_s += sum(int(row["operations"]) for row in rows) / length_s
        cpu_pct += sum(float(row["cpu_pct"]) * float(row["interval_s"]) for row in rows) / length_s
    asked, operations = AGENTS / think_s, counted(trials, "operations")
    server_s = [trial.process_cpu_s("target", until_s) for trial in trials]
    verdicts = sorted({trial.results["verdict"]["is"] for trial in trials})
    # Several generators count as other processes for each other. Their verdicts say only that, as
    # the page notes.
    is_carried = per_s >= CARRIED * asked and (count > 1 or verdicts != ["void"])
    engine_us = sum(trial.engine_cpu_s for trial in trials) / operations * 1e6
    server_us = None if None in server_s else sum(server_s) / operations * 1e6
    said = ", ".join([*verdicts, *trials[0].results["verdict"]["rules"]])
    latencies = [highest(trials, quantile) for quantile in ["p50", "p99"]]
    return [f"{think_s:g} s", asked, per_s, cpu_pct, engine_us, server_us, *latencies, said], is_carried


def measure(stage, given):
    count = parts()
    lines = at_rest(stage, count, max(6, given.seconds))
    rows, best = [], None
    for think_s in THINK_S if not given.quick else THINK_S[2:3]:
        row, is_carried = at_pace(stage, count, think_s, given.seconds)
        rows.append(row)
        print(f"a pause of {think_s:g} s: {row[1:]}", file=sys.stderr, flush=True)
        if is_carried:
            best = row
        elif best:
            break
    if best:
        lines.append(
            f"- the highest rate of which {100 * CARRIED:.0f} % was reached: **{best[2]:.0f} operations/s** at {bench_page.shown(best[3])} % of the "
            "engine's CPU"
        )
    several = (
        [
            f"They are in {count} simultaneous runs, each with its own server, because a process cannot open more than",
            f"{resource.getrlimit(resource.RLIMIT_NOFILE)[1]:,} files here and cannot raise this limit.",
            "The agents of each run connect from three loopback addresses in turn.",
            "Each run counts the others as foreign processes and is late if they use its CPU, so the verdicts are `void` here. Whether a rate was",
            "reached is decided by the results of all runs together, not by these verdicts.",
        ]
        if count > 1
        else []
    )
    heads = ["an agent's pause", "asked/s", "got/s", "engine, % of a CPU", "engine, µs CPU per operation", "server, µs"]
    lines = [
        f"{AGENTS:,} agents, each with a connection of its own, on the built-in server; generator and server pinned to a CPU each, one engine",
        "thread.",
        *several,
        "",
        *lines,
        "",
        *bench_page.table([*heads, "p50, ms", "p99, ms", "verdict"], rows),
        "",
        "CPU per operation is of the whole load, connecting included.",
    ]
    bench_page.write("Scale", lines, given)


if __name__ == "__main__":
    bench(measure, arguments(__doc__, seconds=10))
