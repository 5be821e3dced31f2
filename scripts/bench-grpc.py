#!/usr/bin/env python3
"""Compares the engine's gRPC with ghz: unary calls per second of the generator's CPU and p99, and
whether a wanted rate is held. The server is the health service of gRPC for Go. Generator and server
have a CPU each. Writes a section of bench/RESULTS.md.
"""

import json
import sys

import bench_page
from bench_ratios import details, in_turns, middle, per_cpu_s, quotients, ratio
from bench_stage import ROOT, Failed, arguments, bench, free_port, tool

METHOD = "grpc.health.v1.Health/Check"
# Connections, and calls at a time on each.
LOADS = [(8, 1), (8, 10), (64, 1)]
RATES = [1000, 4000]
# Wanted ratio of Plimsoll's calls per CPU-second to ghz's.
WANTED = 5
# Wanted accuracy of a rate.
WITHIN_PCT = 1
EXPERIMENT = """
title = "grpc"
asks  = "How fast is the generator?"
[target]
url = "grpc://127.0.0.1:{port}"
[load]
agents   = {agents}
pipeline = {streams}
threads  = 1
time     = "{milliseconds}ms"
{rate}
[[load.cycle]]
call = "rpc"
with = {{ method = "{method}", message = "{{{{}}}}" }}
"""


def server(stage):
    """Builds and starts the server."""
    go = tool("go")
    if go is None:
        raise Failed("the server for gRPC is written in Go, which is not installed")
    program, port = stage.folder / "grpc-server", free_port()
    stage.finish([go, "build", "-C", ROOT / "bench/grpc-server", "-o", program, "."])
    return stage.server([program, f"127.0.0.1:{port}"], port, cpu=stage.server_cpu)


def plimsoll(stage, port, connections, streams, rate, seconds):
    """Returns calls, CPU seconds and p99 of a load by Plimsoll. `rate` is None for as many calls as possible."""
    text = EXPERIMENT.format(
        port=port,
        agents=connections * streams,
        streams=streams,
        milliseconds=round(seconds * 1000),
        rate="" if rate is None else f"rate = {rate}",
        method=METHOD,
    )
    trial = stage.play(text, cpu=stage.generator_cpu)
    outcomes = trial.results["outcomes"]
    failed = sum(outcomes[name] for name in ["failed", "timeout", "wrong"])
    cpu_s = trial.process_cpu_s("generator", seconds) or trial.engine_cpu_s
    p99_us = (trial.results["latency_us"] or {}).get("p99")
    return {"requests": trial.operations, "cpu_s": cpu_s, "p99_us": p99_us, "failed": failed, "lasted_s": seconds}


def ghz(stage, port, connections, streams, rate, seconds):
    """Returns the same figures of a load by ghz. Its types come from the server's reflection."""
    words = [tool("ghz"), "--insecure", "--call", METHOD, "--data", "{}", "--format", "json"]
    words += ["--connections", connections, "--concurrency", connections * streams, "--duration", f"{seconds}s"]
    words += [] if rate is None else ["--rps", rate]
    done = stage.finish([*words, f"127.0.0.1:{port}"], cpu=stage.generator_cpu)
    found = json.loads(done.out)
    p99_ns = next((point["latency"] for point in found.get("latencyDistribution") or [] if point["percentage"] == 99), None)
    # Calls that the end of the load cuts off are reported as failures.
    cut = sum(count for status, count in found["statusCodeDistribution"].items() if status in ["Canceled", "Unavailable"])
    answered = found["statusCodeDistribution"].get("OK", 0)
    failed = found["count"] - answered - cut
    lasted_s = found["total"] / 1e9
    return {"requests": answered, "cpu_s": done.cpu_s, "p99_us": p99_ns and p99_ns / 1000, "failed": failed, "lasted_s": lasted_s}


GENERATORS = {"Plimsoll": plimsoll, "ghz": ghz}


def off_pct(turns, of, rate):
    """Returns by how many percent the calls per second of a generator differ from a rate."""
    return middle(abs(turn[of]["requests"] / turn[of]["lasted_s"] / rate - 1) * 100 for turn in turns)


def measure(stage, given):
    if tool("ghz") is None:
        raise Failed("ghz is not installed: scripts/need.sh ghz")
    running = server(stage)
    verdicts, rows = [], []
    for connections, streams in LOADS:
        where = f"{connections} connections × {streams}"
        turns = in_turns(GENERATORS, given.turns, stage, running.port, connections, streams, None, given.seconds)
        cpu, p99 = quotients(turns, "ghz", per_cpu_s), quotients(turns, "ghz", lambda turn: turn["p99_us"])
        verdicts.append([where, "calls per CPU s, over ghz's", *ratio(cpu, f"≥ {WANTED}", lambda of: of >= WANTED)])
        verdicts.append([where, "p99, over ghz's", *ratio(p99, "≤ 1", lambda of: of <= 1)])
        rows += details(where, turns, GENERATORS)
        print(f"{where}: {' '.join(f'{one:.2f}' for one in cpu)}", file=sys.stderr, flush=True)
    for rate in RATES:
        turns = in_turns(GENERATORS, given.turns, stage, running.port, 8, 4, rate, given.seconds)
        for of in GENERATORS:
            off = off_pct(turns, of, rate) or 0
            verdict = "**met**" if off <= WITHIN_PCT else "**not met**"
            verdicts.append([f"{rate:,}/s by {of}", "difference from the rate, %", f"{off:.2f}", None, f"≤ {WITHIN_PCT}", verdict])
        rows += details(f"{rate:,}/s", turns, GENERATORS)
    lines = [
        f"{given.turns} turns of {given.seconds:g} s each, in alternating order: `{METHOD}` of gRPC for Go. The range is from the least to the greatest turn.",
        "ghz reads its types from the server at each start; its CPU time includes that.",
        "",
        *bench_page.table(["", "", "median", "range", "wanted", ""], verdicts),
        "",
        *bench_page.table(["", "", "calls per CPU s", "p99, µs", "failed"], rows),
    ]
    bench_page.write("gRPC", lines, given)


if __name__ == "__main__":
    bench(measure, arguments(__doc__, seconds=3, turns=3))
