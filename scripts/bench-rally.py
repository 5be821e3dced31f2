#!/usr/bin/env python3
"""Compares Plimsoll with Rally at Elasticsearch: documents per second and CPU time, with the same
documents, bulks, clients and server, in turns. Then measures the memory for a stream of many
gigabytes of documents. Needs the target `elasticsearch` and Rally, which `make bench-rally`
installs, root, and the controller cpuacct of version 1. Writes a section of bench/RESULTS.md.
"""

import csv
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request

import bench_page
from bench_stage import ROOT, Failed, arguments, bench, free_port

HOME = ROOT / "targets/elasticsearch"
VERSION = "6.8.23"
CLIENTS = 8
BULK = 500
DOCUMENTS = 600_000
ACCOUNTS = pathlib.Path("/sys/fs/cgroup/cpuacct")
STREAM_GB = 10
WANTED_DOCUMENTS = 1.0
WANTED_CPU = 0.2
WANTED_STREAM_MB = 300

EXPERIMENT = """
title = "documents that a server takes"
asks  = "How many does it take per second?"
[target]
{target}
[load]
agents = {clients}
threads = 1
time   = "30m"
drain  = "60s"
timeout = "60s"
warmup = "0s"
[[load.feed]]
name   = "corpus"
file   = "{corpus}"
stream = true
batch  = {bulk}
before = '{{"index":{{}}}}'
at_end = "stop"
[[load.cycle]]
name  = "bulk"
call  = "post"
with  = {{ path = "/bench/_doc/_bulk", header.content-type = "application/x-ndjson", body = "{{feed.corpus.lines}}" }}
{counted}
"""

INDEX = {"settings": {"number_of_shards": 1, "number_of_replicas": 0}}


def ask(port, method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return json.load(answer)


def server(stage):
    """Starts a node on the servers' CPU, as the user nobody."""
    port, transport = free_port(), free_port(1)
    folders = {name: stage.folder / name for name in ["config", "data", "logs"]}
    stage.folder.chmod(0o755)
    for folder in folders.values():
        folder.mkdir()
        shutil.chown(folder, "nobody")
    look = ["--securebits", "+no_setuid_fixup", "--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"]
    words = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", *look, HOME / "recipe/node", "--home", ""]
    words += ["--built", HOME / "_build" / VERSION, "--java", "", "--heap-mb", 1024, "--memory-mb", 8192, "--cores", 1]
    words += ["--host", "127.0.0.1", "--name", "bench", "--http", port, "--transport", transport, "--hosts", "127.0.0.1"]
    words += ["--names", "bench", "--index", 0, *[word for name, folder in folders.items() for word in (f"--{name}", folder)]]
    words += ["--mmap", "auto", "--watermarks", "true", "--settings", "", "--shards", 1, "--replicas", 0]
    words += ["--durability", "request", "--refresh", "1s"]
    log = open(stage.folder / "node.log", "w+")
    process = stage.start(words, cpu=stage.server_cpu, out=log, err=log)
    until = time.monotonic() + 300
    while time.monotonic() < until and process.poll() is None:
        try:
            if ask(port, "GET", "/_template/plimsoll"):
                return port
        except OSError:
            time.sleep(0.5)
    log.seek(0)
    raise Failed(f"the server did not start:\n{log.read()[-2000:]}")


def track(stage, corpus, documents):
    """Returns the same load as a track of Rally."""
    folder = stage.folder / "track"
    folder.mkdir()
    (folder / "index.json").write_text(json.dumps(INDEX))
    os.link(corpus, folder / "documents.json")
    size = corpus.stat().st_size
    file = {"source-file": "documents.json", "document-count": documents, "uncompressed-bytes": size}
    bulk = {"name": "bulk", "operation-type": "bulk", "bulk-size": BULK, "index": "bench"}
    whole = {
        "version": 2,
        "description": "the same as Plimsoll's",
        "indices": [{"name": "bench", "body": "index.json"}],
        "corpora": [{"name": "documents", "target-index": "bench", "target-type": "_doc", "documents": [file]}],
        "schedule": [{"operation": bulk, "clients": CLIENTS, "warmup-time-period": 0}],
    }
    (folder / "track.json").write_text(json.dumps(whole))
    return folder


def counted(stage, words, **how):
    """Runs a program. Returns the CPU time of the program and all processes that it started, seconds."""
    group = ACCOUNTS / f"plimsoll-bench-{os.getpid()}"
    group.mkdir()
    try:
        stage.finish(words, group=group, **how)
        return int((group / "cpuacct.usage").read_text()) / 1e9
    finally:
        until = time.monotonic() + 30
        while (group / "cgroup.procs").read_text() and time.monotonic() < until:
            time.sleep(0.1)
        group.rmdir()


def gone(name):
    """Waits until no process has this name. Rally does not start while one exists, not even as a zombie."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        names = []
        for file in pathlib.Path("/proc").glob("[0-9]*/comm"):
            try:
                names.append(file.read_text().strip())
            except OSError:
                pass
        if not any(one.startswith(name) for one in names):
            return
        time.sleep(0.2)
    raise Failed(f"a process called {name} does not end")


def anew(port):
    """Creates an empty index."""
    try:
        ask(port, "DELETE", "/bench")
    except urllib.error.HTTPError:
        pass
    ask(port, "PUT", "/bench", INDEX)


def stored(port, documents):
    """Checks that the index has every document."""
    ask(port, "POST", "/bench/_refresh")
    found = ask(port, "GET", "/bench/_count")["count"]
    if found != documents:
        raise Failed(f"{found} of {documents} documents are in the index")


def experiment(target, corpus, counted):
    return EXPERIMENT.format(target=target, corpus=corpus, counted=counted, clients=CLIENTS, bulk=BULK)


def by_plimsoll(stage, port, corpus, documents):
    anew(port)
    file = stage.folder / "experiment.toml"
    file.write_text(experiment(f'url = "http://127.0.0.1:{port}"', corpus, 'parts = "answer.body/items/*/*/status"'))
    runs = stage.folder / f"runs-{time.monotonic_ns()}"
    cpu_s = counted(stage, [stage.plimsoll, "run", file, "--out", runs, "--accept", "--plain"], cpu=stage.generator_cpu)
    stored(port, documents)
    (run,) = runs.iterdir()
    trial = json.loads((run / "analysis.json").read_text())["trials"][0]
    return {
        "docs_per_s": trial["throughput"]["median_units_per_s"],
        "service_ms": trial["service_us"]["p50"] / 1e3,
        "cpu_s": cpu_s,
    }


def by_rally(stage, port, documents, rally, folder):
    gone("esrally")
    anew(port)
    home, report = stage.folder / "rally", stage.folder / f"rally-{time.monotonic_ns()}.csv"
    home.mkdir(exist_ok=True)
    words = [rally, "race", "--pipeline=benchmark-only", "--offline", f"--target-hosts=127.0.0.1:{port}", f"--track-path={folder}"]
    words += ["--on-error=abort", "--report-format=csv", f"--report-file={report}", "--quiet"]
    cpu_s = counted(stage, words, cpu=stage.generator_cpu, environment={"RALLY_HOME": str(home)})
    stored(port, documents)
    with open(report, newline="") as file:
        rows = {(row[0], row[1]): row[2] for row in csv.reader(file) if len(row) > 2}
    return {
        "docs_per_s": float(rows["Median Throughput", "bulk"]),
        "service_ms": float(rows["50th percentile service time", "bulk"]),
        "cpu_s": cpu_s,
    }


def streamed(stage, corpus, gigabytes):
    """Sends the documents, repeated as one long file, to a server that only answers. Returns the number of documents sent and the peak memory."""
    file = stage.folder / "stream.json"
    with open(file, "wb") as whole:
        while whole.tell() < gigabytes * 1e9:
            with open(corpus, "rb") as part:
                shutil.copyfileobj(part, whole, 1 << 20)
    text = stage.folder / "stream.toml"
    text.write_text(experiment(stage.own_echo(), file, f"units = {BULK}"))
    runs = stage.folder / "runs-stream"
    done = stage.finish([stage.plimsoll, "run", text, "--out", runs, "--accept", "--plain", "--json"], cpu=stage.generator_cpu)
    trial = json.loads(done.out)["trials"][0]
    came = {
        "bytes": file.stat().st_size,
        "units": sum(of["units"] for of in trial["operations"].values()),
        "docs_per_s": trial["throughput"]["median_units_per_s"],
        "peak_bytes": done.peak_bytes,
    }
    file.unlink()
    return came


def measure(stage, given):
    if not shutil.which(given.rally):
        raise Failed(f"Rally is missing at {given.rally}: `make bench-rally` installs it into target/tools")
    if not ACCOUNTS.is_dir():
        raise Failed(f"{ACCOUNTS} is missing: the cgroup controller cpuacct measures the CPU time of all processes that Rally starts")
    corpus = stage.folder / "documents.json"
    with open(corpus, "w") as file:
        subprocess.run([HOME / "recipe/corpus", str(given.documents), "2020"], stdout=file, check=True)
    stream = streamed(stage, corpus, given.gigabytes)
    print(f"stream: {stream}", file=sys.stderr, flush=True)
    port, folder = server(stage), track(stage, corpus, given.documents)
    # A newly started server first compiles its own program, which would slow the first turn.
    by_plimsoll(stage, port, corpus, given.documents)
    turns = {"Plimsoll": [], "Rally": []}
    for number in range(given.turns):
        for who in sorted(turns, reverse=number % 2 == 1):
            if who == "Plimsoll":
                came = by_plimsoll(stage, port, corpus, given.documents)
            else:
                came = by_rally(stage, port, given.documents, given.rally, folder)
            turns[who].append(came)
            print(f"turn {number + 1}, {who}: {came}", file=sys.stderr, flush=True)
    bench_page.write("Search", [*beside_rally(turns, given), "", *of_stream(stream)], given)


def verdict(is_met):
    return "**met**" if is_met else "**not met**"


def beside_rally(turns, given):
    figures = ["docs_per_s", "service_ms", "cpu_s"]
    median = {who: {figure: statistics.median(turn[figure] for turn in came) for figure in figures} for who, came in turns.items()}
    ours, theirs = median["Plimsoll"], median["Rally"]
    # Both runs of a turn meet the same server in the same state.
    each = list(zip(turns["Plimsoll"], turns["Rally"]))
    documents = statistics.median(one["docs_per_s"] / other["docs_per_s"] for one, other in each)
    cpu = statistics.median(one["cpu_s"] / other["cpu_s"] for one, other in each)
    return [
        f"Elasticsearch {VERSION} on a CPU of its own takes {given.documents:,} documents of about 270 bytes in bulks of {BULK} from {CLIENTS} clients on",
        f"another, from Plimsoll and from {bench_page.said([given.rally, '--version'])} in turns, {given.turns} of each, an index anew each time; every document is",
        "counted afterwards. Shown are medians. CPU is that of all that each starts, from its start to its end.",
        "",
        *bench_page.table(
            ["", "docs/s, median over the seconds", "service time of a bulk, median, ms", "CPU, s"],
            [[who, *[of[figure] for figure in figures]] for who, of in [("Plimsoll", ours), ("Rally", theirs)]],
        ),
        "",
        f"- docs/s, Plimsoll's over Rally's of the same turn: {bench_page.shown(documents)}, wanted at least {WANTED_DOCUMENTS:g}: {verdict(documents >= WANTED_DOCUMENTS)}",
        f"- CPU, Plimsoll's over Rally's of the same turn: {bench_page.shown(cpu)}, wanted at most {WANTED_CPU:g}: {verdict(cpu <= WANTED_CPU)}",
    ]


def of_stream(stream):
    peak_mb = stream["peak_bytes"] / 1e6
    return [
        f"A stream of {stream['bytes'] / 1e9:.1f} GB of such documents, {stream['units']:,} of them, to a server that only answers: "
        f"{bench_page.shown(stream['docs_per_s'])} docs/s, and",
        "the most memory that Plimsoll had, its report included:",
        "",
        f"- {peak_mb:.0f} MB, wanted below {WANTED_STREAM_MB}: {verdict(peak_mb < WANTED_STREAM_MB)}",
    ]


def more(parser):
    parser.add_argument("--rally", default=str(ROOT / "target/tools/rally/bin/esrally"), help="Rally's program")
    parser.add_argument("--documents", type=int, default=DOCUMENTS, help="number of documents to index")
    parser.add_argument("--gigabytes", type=float, default=STREAM_GB, help="size of the stream")


if __name__ == "__main__":
    given = arguments(__doc__, seconds=0, turns=3, more=more)
    given.quick |= given.documents < DOCUMENTS or given.gigabytes < STREAM_GB
    bench(measure, given)
