#!/usr/bin/env python3
"""A collector of OpenTelemetry metrics for one run of the given program. All posts must be messages
of OTLP, and the last post must agree with the run's analysis."""

import json
import pathlib
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

posted, wrong = [], []


class Collector(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            # A field that OTLP does not have is an error.
            posted.append(json_format.Parse(body, ExportMetricsServiceRequest()))
            if self.path != "/v1/metrics" or self.headers["Content-Type"] != "application/json":
                wrong.append(f"{self.path} {self.headers['Content-Type']}")
        except json_format.ParseError as error:
            wrong.append(str(error))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


def metrics(request):
    return {metric.name: metric for of in request.resource_metrics for scope in of.scope_metrics for metric in scope.metrics}


def play(plimsoll, url, runs):
    words = [plimsoll, "run", "experiments/01-first-run.toml", "--set", "load.time=7s", "--set", "load.warmup=0s", "--otlp", url,
             "--out", runs, "--accept", "--json"]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{done.stderr}plimsoll ended with {done.returncode}")
    return json.loads(done.stdout)["trials"][0], done.stderr


def main():
    collector = HTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{collector.server_port}"
    with tempfile.TemporaryDirectory() as runs:
        trial, _ = play(sys.argv[1], url, pathlib.Path(runs) / "told")
        if wrong or len(posted) < 2:
            sys.exit(f"{len(posted)} posts; {wrong}")
        last = metrics(posted[-1])
        told = {attribute.value.string_value: point.as_int for point in last["plimsoll.operations"].sum.data_points
                for attribute in point.attributes if attribute.key == "outcome"}
        found = {name: trial["outcomes"][name] for name in told}
        [latency] = last["plimsoll.latency"].histogram.data_points
        if told != found or latency.count != found["ok"] or sum(latency.bucket_counts) != latency.count:
            sys.exit(f"exported {told}, latencies {latency.count}; the analysis has {found}")
        # Without a collector, the run names it and goes on.
        collector.shutdown()
        collector.server_close()
        _, said = play(sys.argv[1], url, pathlib.Path(runs) / "untold")
        if said.count("--otlp") != 1:
            sys.exit(f"expected one message about the missing collector:\n{said}")
    print(f"{len(posted)} OTLP exports; the last has {told['ok']} operations and latencies, as the analysis")


main()
