#!/usr/bin/env bash
# check-otlp.sh PLIMSOLL: plays an experiment, short, with this binary, and has what it tells a collector read by OpenTelemetry's own messages (PyPI's
# opentelemetry-proto): every post must be one, and the last must have the totals of analysis.json.
set -euo pipefail
cd "$(dirname "$0")/.."

version=1.45.2
python=target/tools/python/bin/python

if ! "$python" -c 'import opentelemetry.proto.collector.metrics.v1.metrics_service_pb2' 2>/dev/null; then
    [ -x "$python" ] || python3 -m venv target/tools/python
    "$python" -m pip install --quiet --disable-pip-version-check "opentelemetry-proto==$version"
fi

"$python" scripts/check_otlp.py "$1"
