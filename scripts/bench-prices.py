#!/usr/bin/env python3
"""Measures the CPU time per operation that expectations, patterns, places in JSON, scripts, TLS and
new connections cost the generator, compared with a plain operation. The server is nginx;
generator and server have a CPU each. Writes a section of bench/RESULTS.md.
"""

import statistics
import subprocess
import sys

import bench_nginx
import bench_page
from bench_stage import Failed, arguments, bench, free_port, tool

AGENTS = 64
# The text that patterns look for is near the end.
BODY = '{"count": 3, "items": [' + ", ".join(f'{{"id": {id}, "name": "item {id}", "price": "{id}.50"}}' for id in [5, 6, 7]) + "]}"

SCRIPT = """
function order_number(t)
    local digits = string.format("%03d%06d", t.agent, t.seq)
    local sum = 0
    for digit in digits:gmatch("%d") do
        sum = (sum * 2 + tonumber(digit)) % 11
    end
    return digits .. sum % 10
end

function constant(t)
    return "7"
end

function is_seven(text, t)
    return text == "7"
end
"""

EXPERIMENT = """
title = "prices"
asks  = "What does it cost?"
[target]
{target}
[load]
agents  = {agents}
threads = 1
time    = "{milliseconds}ms"
warmup  = "0s"
{load}
[[load.cycle]]
call = "get"
{step}
"""

PLAIN = 'with = { path = "/orders/123456789" }'
SCRIPTED = 'script = "prices.lua"'
# Kinds of operations: name, further lines of the target, of the load, and of the step.
KINDS = [
    ("a plain GET, its status looked at", "", "", PLAIN),
    ('`expect = { status = "200" }`', "", "", f'{PLAIN}\nexpect = {{ status = "200" }}'),
    ('a path of `{agent}` and `{seq}`', "", "", 'with = { path = "/orders/{agent}-{seq}" }'),
    ('`body` has a text in it (`contains`)', "", "", f'{PLAIN}\nexpect = {{ body = {{ contains = "item 7" }} }}'),
    ('`body` has a match (`matches`)', "", "", f"{PLAIN}\nexpect = {{ body = {{ matches = '\"id\": [0-9]+, \"name\": \"item 7\"' }} }}"),
    ('a place in JSON, `"body/items/2/id"`', "", "", f'{PLAIN}\nexpect = {{ "body/items/2/id" = "7" }}'),
    ('a place in JSON is kept', "", "", f'{PLAIN}\nkeep = {{ id = "answer.body/items/2/id" }}'),
    ("a script's function for a value, as short as can be", "", SCRIPTED, 'with = { path = "/orders/{lua.constant}" }'),
    ("a script's function for a value, ten steps long", "", SCRIPTED, 'with = { path = "/orders/{lua.order_number}" }'),
    ("a script's function for a check of a place in JSON", "", SCRIPTED, f'{PLAIN}\nexpect = {{ "body/items/2/id" = {{ lua = "is_seven" }} }}'),
    ("TLS 1.3, connections kept", "tls = { insecure = true }", "", PLAIN),
    ("a new connection for each (`keep_alive = false`)", "", "keep_alive = false", PLAIN),
    ("sixteen agents to a connection (`pipeline = 16`)", "", "pipeline = 16", PLAIN),
]


def nginx(stage):
    """Starts one worker on the servers' CPU. Returns its plain port and its TLS port."""
    if tool("nginx") is None:
        raise Failed("nginx is not installed: run scripts/need.sh nginx")
    key, certificate = stage.folder / "server.key", stage.folder / "server.crt"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    words += ["-subj", "/CN=localhost", "-keyout", key, "-out", certificate]
    made = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if made.returncode != 0:
        raise Failed(f"openssl could not make a certificate:\n{made.stderr}")
    tls_port = free_port(1)
    tls = [f"listen 127.0.0.1:{tls_port} ssl backlog=4096;", f"ssl_certificate {certificate};", f"ssl_certificate_key {key};"]
    location = f"default_type application/json; location / {{ return 200 '{BODY}'; }}"
    return bench_nginx.start(stage, "\n".join([*tls, location])).port, tls_port


def turn(stage, url, kind, seconds):
    """Returns the engine's CPU time for an operation, microseconds."""
    name, target, load, step = kind
    if "tls" in target:
        target = f'url = "{url["tls"]}"\n{target}'
    else:
        target = f'url = "{url["clear"]}"'
    words = {"target": target, "load": load, "step": step, "agents": AGENTS, "milliseconds": round(seconds * 1000)}
    trial = stage.play(EXPERIMENT.format(**words), cpu=stage.generator_cpu, files={"prices.lua": SCRIPT})
    outcomes = trial.results["outcomes"]
    if trial.operations == 0 or sum(outcomes[bad] for bad in ["failed", "timeout", "wrong"]) > 0:
        raise Failed(f"{name}: {outcomes}, {trial.results['verdict']}")
    return trial.engine_cpu_s / trial.operations * 1e6


def measure(stage, given):
    port, tls_port = nginx(stage)
    url = {"clear": f"http://127.0.0.1:{port}", "tls": f"https://127.0.0.1:{tls_port}"}
    came = {kind[0]: [] for kind in KINDS}
    for number in range(given.turns):
        for kind in KINDS:
            came[kind[0]].append(turn(stage, url, kind, given.seconds))
            print(f"{kind[0]}, turn {number + 1}: {came[kind[0]][-1]:.2f} µs", file=sys.stderr, flush=True)
    plain = came[KINDS[0][0]]
    rows = []
    for name, all_us in came.items():
        more = [us - plain_us for us, plain_us in zip(all_us, plain)]
        spread = f"{min(more):+.2f} to {max(more):+.2f}"
        rows.append([name, statistics.median(all_us), *(["", ""] if all_us is plain else [f"{statistics.median(more):+.2f}", spread])])
    lines = [
        f"CPU time of the engine's thread for an operation, {AGENTS} agents in a closed loop, answers of {len(BODY)} bytes from nginx. Medians of {given.turns}",
        f"turns of {given.seconds:g} s; what is more than a plain one took in the same turn, with the least and the most of the turns.",
        "",
        *bench_page.table(["", "µs for an operation", "more", "from … to"], rows),
    ]
    bench_page.write("Prices", lines, given)


if __name__ == "__main__":
    bench(measure, arguments(__doc__, seconds=3, turns=5))
