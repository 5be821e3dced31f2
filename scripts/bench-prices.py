#!/usr/bin/env python3
"""Measures the CPU time per operation that values, bodies, cookies, expectations, patterns, places in
JSON, compressed answers, scripts, TLS and new connections cost the generator, compared with a plain
operation. The server is nginx; generator and server have a CPU each. Writes a section of
bench/RESULTS.md.
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
{step}
"""

WORDS = "word\nrock & roll\nfish and chips\n"
FEED = '[[load.feed]]\nname = "words"\nfile = "words.csv"'


def jar(count):
    """Returns the lines of a load whose agents have so many cookies from before their first cycle."""
    return f'cookies = true\n[[load.on_start]]\nname = "cookies"\ncall = "get"\nwith = {{ path = "/cookies/{count}" }}'


PLAIN = 'with = { path = "/orders/123456789" }'
POST = 'call = "post"'
GZIP = 'with = { path = "/gzip", header.accept-encoding = "gzip" }'
SCRIPTED = 'script = "prices.lua"'
# Kinds of operations: name, further lines of the target, of the load, and of the step.
KINDS = [
    ("a plain GET, its status looked at", "", "", PLAIN),
    ('`expect = { status = "200" }`', "", "", f'{PLAIN}\nexpect = {{ status = "200" }}'),
    ('a path of `{agent}` and `{seq}`', "", "", 'with = { path = "/orders/{agent}-{seq}" }'),
    ('a path of `{uuid}`', "", "", 'with = { path = "/orders/{uuid}" }'),
    ('a path of `{counter:orders}`', "", "", 'with = { path = "/orders/{counter:orders}" }'),
    ('a path of `{now:%Y-%m-%d}`', "", "", 'with = { path = "/orders/{now:%Y-%m-%d}" }'),
    ("a path of `{seq}` as SHA-256", "", "", 'with = { path = "/orders/{seq|sha256}" }'),
    ('a random number from `set`, used twice', "", "", 'set = { id = "{uniform:1..1000}" }\nwith = { path = "/orders/{id}-{id}" }'),
    ("a feed's value in a query, encoded", "", FEED, 'with = { path = "/orders?word={feed.words.word}" }'),
    ("a POST of a JSON body of constant text", "", "", f"{POST}\nwith = {{ path = \"/orders\", body = '{{{{\"id\": 7}}}}' }}"),
    ("a POST of a form of two values", "", FEED, f'{POST}\nwith = {{ path = "/orders", form.word = "{{feed.words.word}}", form.id = "{{seq}}" }}'),
    ("a cookie jar with one cookie", "", jar(1), PLAIN),
    ("a cookie jar with five cookies", "", jar(5), PLAIN),
    ('`body` has a text in it (`contains`)', "", "", f'{PLAIN}\nexpect = {{ body = {{ contains = "item 7" }} }}'),
    ('`body` has a match (`matches`)', "", "", f"{PLAIN}\nexpect = {{ body = {{ matches = '\"id\": [0-9]+, \"name\": \"item 7\"' }} }}"),
    ('a place in JSON, `"body/items/2/id"`', "", "", f'{PLAIN}\nexpect = {{ "body/items/2/id" = "7" }}'),
    ('a place in JSON is kept', "", "", f'{PLAIN}\nkeep = {{ id = "answer.body/items/2/id" }}'),
    ("an answer in gzip, its status looked at", "", "", GZIP),
    ("an answer in gzip, its `body` has a text in it (`contains`)", "", "", f'{GZIP}\nexpect = {{ body = {{ contains = "item 7" }} }}'),
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
    answer = f"return 200 '{BODY}';"
    cookies = [f'add_header Set-Cookie "cookie{number}=0123456789abcdef; Path=/";' for number in range(5)]
    locations = [
        "default_type application/json;",
        f"location / {{ {answer} }}",
        f"location /gzip {{ gzip on; gzip_min_length 1; gzip_types application/json; {answer} }}",
        *[f"location /cookies/{count} {{ {' '.join(cookies[:count])} {answer} }}" for count in (1, 5)],
    ]
    return bench_nginx.start(stage, "\n".join([*tls, *locations])).port, tls_port


def turn(stage, url, kind, seconds):
    """Returns the engine's CPU time for an operation, microseconds."""
    name, target, load, step = kind
    if "tls" in target:
        target = f'url = "{url["tls"]}"\n{target}'
    else:
        target = f'url = "{url["clear"]}"'
    step = step if step.startswith("call") else f'call = "get"\n{step}'
    words = {"target": target, "load": load, "step": step, "agents": AGENTS, "milliseconds": round(seconds * 1000)}
    trial = stage.play(EXPERIMENT.format(**words), cpu=stage.generator_cpu, files={"prices.lua": SCRIPT, "words.csv": WORDS})
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
        ratio = statistics.median(us / plain_us for us, plain_us in zip(all_us, plain))
        compared = ["", "", ""] if all_us is plain else [f"{ratio:.2f}", f"{statistics.median(more):+.2f}", spread]
        rows.append([name, statistics.median(all_us), *compared])
    lines = [
        f"CPU time of the engine's thread for an operation, {AGENTS} agents in a closed loop, answers of {len(BODY)} bytes from nginx. Medians of {given.turns}",
        f"turns of {given.seconds:g} s; as a multiple of a plain one in the same turn, and what is more, with the least and the most of the turns.",
        "",
        *bench_page.table(["", "µs for an operation", "× plain", "more", "from … to"], rows),
    ]
    bench_page.write("Prices", lines, given)


if __name__ == "__main__":
    bench(measure, arguments(__doc__, seconds=3, turns=5))
