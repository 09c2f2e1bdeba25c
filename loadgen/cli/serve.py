"""`loadgen serve`: the simulated inference server, to try things on."""

import json
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import trio
import typer
from rich.console import Console

from loadgen.sim.listen import open_listeners
from loadgen.sim.server import SimServer
from loadgen.workload.loader import load_sim_script
from loadgen.workload.sim_script import SimScript


def serve(
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.", min=0, max=65535)] = 8000,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    script: Annotated[Path | None, typer.Option(help="YAML file with what may stand under `sim:`.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Override a key, e.g. --set jitter=10%.")
    ] = None,
    ttft: Annotated[str | None, typer.Option(help="Short for --set ttft=...: time to the first token, e.g. 250ms.")] = None,
    itl: Annotated[str | None, typer.Option(help="Short for --set itl=...: gap between tokens, e.g. 20ms.")] = None,
    json_: Annotated[bool, typer.Option("--json", help='Once it listens, print {"url", "pid"} on stdout.')] = False,
) -> None:
    """Serve simulated token streams: POST /v1/chat/completions and other APIs, GET /v1/models, /health, /metrics, /sse."""
    overrides = [*(set_ or ()), *(f"{key}={value}" for key, value in (("ttft", ttft), ("itl", itl)) if value is not None)]
    trio.run(partial(_serve, load_sim_script(script, overrides), host, port, ready_json=json_))


async def _serve(script: SimScript, host: str, port: int, *, ready_json: bool) -> None:
    """Until SIGINT or SIGTERM."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        listeners, url = await open_listeners(host, port)
    except OSError as error:
        raise typer.BadParameter(f"cannot listen on {host} port {port}: {error.strerror or error}") from None
    server = SimServer(script)
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run, listeners)
            console.print(f"simulated server on {url} (Ctrl-C ends it); try")
            body = '{"messages": [{"role": "user", "content": "hi"}], "stream": true, "max_tokens": 10}'
            console.print(f"  curl -N {url}/v1/chat/completions -d '{body}'", markup=False)
            if ready_json:
                sys.stdout.write(json.dumps({"url": url, "pid": os.getpid()}) + "\n")
                sys.stdout.flush()
            async for _ in signals:
                nursery.cancel_scope.cancel()
    ended = ", ".join(f"{count} {state}" for state, count in server.ended.items()) or "none"
    console.print(f"streams: {ended}; at most {server.max_open} open at once")
