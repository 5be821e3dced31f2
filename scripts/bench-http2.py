#!/usr/bin/env python3
"""Compares the engine's HTTP/2 with h2load: requests per second of the generator's CPU and p99, for
1, 10 and 100 streams on 8 and 64 connections, in clear text and with TLS, against nghttpd. Generator
and server have a CPU each. Writes a section of bench/RESULTS.md.
"""

import itertools
import re
import sys

import bench_page
from bench_ratios import details, in_turns, middle, per_cpu_s, quotients, ratio
from bench_stage import Failed, arguments, bench, free_port, tool

CONNECTIONS = [8, 64]
STREAMS = [1, 10, 100]
# Wanted ratio of Plimsoll's requests per CPU-second to h2load's.
WANTED = 1.25
# Connecting is left out of p99 on both sides.
CONNECTING_S = 0.2
PAGE_BYTES = 16
EXPERIMENT = """
title = "http2"
asks  = "How fast is the generator?"
[target]
url = "{url}"
{tls}
[load]
agents   = {agents}
pipeline = {streams}
threads  = 1
time     = "{milliseconds}ms"
warmup   = "{warmup_ms}ms"
[[load.cycle]]
call   = "get"
with   = {{ path = "/page" }}
expect = {{ status = "200" }}
"""


def server(stage, is_tls):
    """Starts nghttpd. Returns None if it, or openssl for its certificate, is not installed."""
    program, openssl = tool("nghttpd"), tool("openssl")
    if program is None or (is_tls and openssl is None):
        return None
    pages = stage.folder / "pages"
    pages.mkdir(exist_ok=True)
    (pages / "page").write_text("x" * PAGE_BYTES)
    port = free_port()
    words = [program, "--workers", 1, "--address", "127.0.0.1", "--htdocs", pages, "--max-concurrent-streams", 200]
    if not is_tls:
        return stage.server([*words, "--no-tls", port], port, cpu=stage.server_cpu)
    key, certificate = stage.folder / "key.pem", stage.folder / "certificate.pem"
    make = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", 2]
    stage.finish([*make, "-subj", "/CN=localhost", "-keyout", key, "-out", certificate])
    return stage.server([*words, port, key, certificate], port, cpu=stage.server_cpu)


def plimsoll(stage, port, is_tls, connections, streams, seconds):
    """Returns requests, CPU seconds and p99 of a load by Plimsoll."""
    tls = "tls = { insecure = true }" if is_tls else ""
    text = EXPERIMENT.format(
        url=f"{'h2' if is_tls else 'h2c'}://127.0.0.1:{port}",
        tls=tls,
        agents=connections * streams,
        streams=streams,
        milliseconds=round(seconds * 1000),
        warmup_ms=round(CONNECTING_S * 1000),
    )
    trial = stage.play(text, cpu=stage.generator_cpu)
    outcomes = trial.results["outcomes"]
    failed = sum(outcomes[name] for name in ["failed", "timeout", "wrong"])
    cpu_s = trial.process_cpu_s("generator", seconds) or trial.engine_cpu_s
    latency_us, per_s = trial.results["latency_us"] or {}, trial.results["throughput"]["operations_per_s"]
    covered = latency_us.get("mean", 0) / 1e6 * (per_s or 0) / (connections * streams)
    return {"requests": trial.operations, "cpu_s": cpu_s, "p99_us": latency_us.get("p99"), "failed": failed, "covered": covered}


def h2load(stage, port, is_tls, connections, streams, seconds):
    """Returns the figures of h2load. It reports no percentiles, so a second load writes a log of its requests. It takes only whole seconds."""
    seconds = max(1, round(seconds))
    url = f"{'https' if is_tls else 'http'}://127.0.0.1:{port}/page"
    words = [tool("h2load"), "--threads", 1, "--clients", connections, "--max-concurrent-streams", streams]
    done = stage.finish([*words, "--duration", seconds, url], cpu=stage.generator_cpu)
    found = re.search(r"requests: \d+ total, \d+ started, (\d+) done, \d+ succeeded, (\d+) failed", done.out)
    if not found:
        raise Failed(f"the output of h2load cannot be parsed:\n{done.out}")
    log = stage.folder / "h2load.log"
    log.unlink(missing_ok=True)
    stage.finish([*words, "--duration", seconds, "--log-file", log, url], cpu=stage.generator_cpu)
    p99_us, in_flight = times_of(log)
    covered = in_flight / (connections * streams)
    return {"requests": int(found[1]), "cpu_s": done.cpu_s, "p99_us": p99_us, "failed": int(found[2]), "covered": covered}


def times_of(log):
    """Returns the 99th percentile in µs, and the mean number of requests in flight, of a log of start (µs), status and length (µs) of requests."""
    rows = [line.split("\t") for line in log.read_text().splitlines()]
    starts_us = [int(row[0]) for row in rows]
    begin_us = min(starts_us, default=0) + CONNECTING_S * 1e6
    lengths_us = sorted(int(row[2]) for row in rows if int(row[0]) >= begin_us)
    if not lengths_us:
        return None, 0
    return float(lengths_us[len(lengths_us) * 99 // 100]), sum(lengths_us) / max(max(starts_us) - begin_us, 1)


GENERATORS = {"Plimsoll": plimsoll, "h2load": h2load}


def measure(stage, given):
    if tool("h2load") is None:
        raise Failed("h2load is not installed: scripts/need.sh h2load")
    verdicts, rows = [], []
    for is_tls in [False, True]:
        running = server(stage, is_tls)
        name = "TLS" if is_tls else "clear text"
        if running is None:
            verdicts.append([name, "nghttpd or openssl is not installed", None, None, None, "**not measured**"])
            continue
        for connections, streams in itertools.product(CONNECTIONS, STREAMS):
            where = f"{name}, {connections} connections × {streams}"
            turns = in_turns(GENERATORS, given.turns, stage, running.port, is_tls, connections, streams, given.seconds)
            cpu, p99 = quotients(turns, "h2load", per_cpu_s), quotients(turns, "h2load", lambda turn: turn["p99_us"])
            verdicts.append([where, "requests per CPU s, over h2load's", *ratio(cpu, f"≥ {WANTED}", lambda of: of >= WANTED)])
            verdicts.append([where, "p99, over h2load's", *ratio(p99, "≤ 1", lambda of: of <= 1)])
            for row, of in zip(details(where, turns, GENERATORS), GENERATORS):
                rows.append([*row, f"{100 * middle(turn[of]['covered'] for turn in turns):.0f} %"])
            print(f"{where}: {' '.join(f'{one:.2f}' for one in cpu)}", file=sys.stderr, flush=True)
        stage.end(running.process)
    lines = [
        f"{given.turns} turns of {given.seconds:g} s each, in alternating order, against one worker of nghttpd with a page of {PAGE_BYTES} bytes.",
        "The range is from the least to the greatest turn. p99 of h2load is that of a second load, which writes its log.",
        "In a closed loop, each stream always has a request. The last column is the share of that time which the generator's own request times",
        "cover (Little's law): h2load's times leave out what passes between an answer and the next request, so its p99 is lower than what a stream sees.",
        "",
        *bench_page.table(["", "", "median", "range", "wanted", ""], verdicts),
        "",
        *bench_page.table(["", "", "requests per CPU s", "p99, µs", "failed", "time covered"], rows),
    ]
    bench_page.write("HTTP/2", lines, given)


if __name__ == "__main__":
    bench(measure, arguments(__doc__, seconds=4, turns=3))
