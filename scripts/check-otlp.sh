#!/usr/bin/env bash
# check-otlp.sh PLIMSOLL: plays a short experiment with this binary, and reads its exports with
# OpenTelemetry's own messages (PyPI's opentelemetry-proto). Every post must be such a message, and
# the last must have the totals of analysis.json.
set -euo pipefail
cd "$(dirname "$0")/.."

version=1.45.2
python=target/tools/python/bin/python

if ! "$python" -c 'import opentelemetry.proto.collector.metrics.v1.metrics_service_pb2' 2>/dev/null; then
    [ -x "$python" ] || python3 -m venv target/tools/python
    "$python" -m pip install --quiet --disable-pip-version-check "opentelemetry-proto==$version"
fi

"$python" scripts/check_otlp.py "$1"
