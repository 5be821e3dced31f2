"""nginx for the benchmarks: one worker on the servers' CPU, with a separate configuration. This
module must not know what is measured."""

from bench_stage import free_port, tool

CONFIG = """
daemon off;
worker_processes 1;
worker_rlimit_nofile 16384;
pid {folder}/nginx.pid;
error_log {folder}/nginx-error.log crit;
events {{ worker_connections 8192; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    keepalive_timeout 300s;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        {serves}
    }}
}}
"""


def start(stage, serves):
    """Starts a server with these lines of configuration. Returns None if nginx is not installed."""
    program = tool("nginx")
    if program is None:
        return None
    port = free_port()
    config = stage.folder / "nginx.conf"
    config.write_text(CONFIG.format(folder=stage.folder, port=port, serves=serves))
    words = [program, "-p", stage.folder, "-c", config, "-e", stage.folder / "nginx-error.log"]
    return stage.server(words, port, cpu=stage.server_cpu)
