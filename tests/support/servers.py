"""Servers that nobody here wrote, as child processes on free ports: nginx, haproxy, nghttpx, uvicorn, hypercorn."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

START_TIMEOUT_S: Final = 15
# In CI a missing server is a failure, not a skip.
REQUIRED: Final = "LOADGEN_REQUIRE_SERVERS" in os.environ


def need(program: str) -> str:
    """The path of a program; skips the test where it is not installed, and says how to get it."""
    found = shutil.which(program)
    if found is None:
        message = f"{program} is not installed (apt-get install {program})"
        if REQUIRED:
            pytest.fail(message)
        pytest.skip(message)
    return found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def running(command: list[str], port: int, cwd: Path) -> Iterator[None]:
    """A child process that listens on ``port``; killed with its own children when the block is left."""
    with (cwd / "server.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=cwd, stdout=log, stderr=log, start_new_session=True)
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                said = (cwd / "server.log").read_text(errors="replace")
                assert process.poll() is None, f"{command[0]} ended at once:\n{said}"
                assert time.monotonic() < deadline, f"{command[0]} does not listen:\n{said}"
                time.sleep(0.02)
        yield
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(5)


# An ASGI app that sends 12 text chunks 30 ms apart, each with the moment it was sent (CLOCK_MONOTONIC, ns).
APP: Final = """
import asyncio, json, time

async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    head = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    begin = time.monotonic()
    for i in range(12):
        await asyncio.sleep(max(0, begin + 0.1 + 0.03 * i - time.monotonic()))
        finish = "stop" if i == 11 else None
        data = {"choices": [{"index": 0, "delta": {"content": "tok"}, "finish_reason": finish}], "sent": time.monotonic_ns()}
        await send({"type": "http.response.body", "body": b"data: " + json.dumps(data).encode() + b"\\n\\n", "more_body": True})
    await send({"type": "http.response.body", "body": b"data: [DONE]\\n\\n"})
"""


# An ASGI app that sends a chunk each 30 ms for ever, and appends the moment it hears that the client has left to `gone`.
ENDLESS_APP: Final = """
import asyncio, time

async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    left = asyncio.ensure_future(receive())
    while not (await asyncio.wait([left], timeout=0.03))[0]:
        body = b'data: {"choices":[{"index":0,"delta":{"content":"tok"},"finish_reason":null}]}\\n\\n'
        await send({"type": "http.response.body", "body": body, "more_body": True})
    with open("gone", "a") as file:
        file.write(f"{time.monotonic_ns()}\\n")
"""


@contextmanager
def asgi_server(kind: str, folder: Path, app: str = APP, *options: str) -> Iterator[int]:
    """uvicorn or hypercorn serving an app in ``folder``; its port."""
    (folder / "sse_app.py").write_text(app)
    port = free_port()
    command = {
        "uvicorn": ["uvicorn", "sse_app:app", "--host", "127.0.0.1", "--port", str(port), "--log-level", "warning", *options],
        "hypercorn": ["hypercorn", "sse_app:app", "--bind", f"127.0.0.1:{port}", *options],
    }[kind]
    with running([sys.executable, "-m", *command], port, folder):
        yield port


@contextmanager
def nginx(upstream: int, folder: Path, *settings: str, listen: str = "") -> Iterator[int]:
    """nginx in front of ``upstream`` with its own defaults plus ``settings`` in the location; its port."""
    program, port = need("nginx"), free_port()
    location = "\n".join(f"            {setting};" for setting in settings)
    (folder / "nginx.conf").write_text(f"""
daemon off; master_process off; pid {folder}/nginx.pid; error_log stderr;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
    uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    server {{
        listen 127.0.0.1:{port} {listen};
        location / {{
            proxy_pass http://127.0.0.1:{upstream};
{location}
        }}
    }}
}}
""")
    with running([program, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", "stderr"], port, folder):
        yield port


@contextmanager
def haproxy(upstream: int, folder: Path, *settings: str, bind: str = "") -> Iterator[int]:
    """haproxy in front of ``upstream``, HTTP/1.1 to it, with ``settings`` in its defaults; its port."""
    program, port = need("haproxy"), free_port()
    defaults = "\n".join(f"    {setting}" for setting in settings)
    (folder / "haproxy.cfg").write_text(f"""
global
    maxconn 512
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
{defaults}
frontend f
    bind 127.0.0.1:{port} {bind}
    default_backend b
backend b
    server s 127.0.0.1:{upstream}
""")
    with running([program, "-db", "-f", str(folder / "haproxy.cfg")], port, folder):
        yield port


@contextmanager
def nghttpx(upstream: int, folder: Path) -> Iterator[int]:
    """nghttpx in front of ``upstream``: HTTP/2 in cleartext on its side, HTTP/1.1 to it; its port."""
    program, port = need("nghttpx"), free_port()
    command = [
        program, f"--frontend=127.0.0.1,{port};no-tls", f"--backend=127.0.0.1,{upstream}", "--workers=1",
        "--errorlog-file=/dev/stderr", "--conf=/dev/null", "--no-ocsp",
    ]  # fmt: skip
    with running(command, port, folder):
        yield port


@contextmanager
def prometheus(target: str, folder: Path, *, every: str = "500ms") -> Iterator[str]:
    """Prometheus scraping ``target`` (host:port); the URL of its API."""
    program, port = need("prometheus"), free_port()
    (folder / "prometheus.yml").write_text(f"""
global: {{scrape_interval: {every}, scrape_timeout: {every}}}
scrape_configs:
  - job_name: loadgen
    static_configs: [{{targets: ["{target}"]}}]
""")
    command = [
        program, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb",
        f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
    ]  # fmt: skip
    with running(command, port, folder):
        yield f"http://127.0.0.1:{port}"
