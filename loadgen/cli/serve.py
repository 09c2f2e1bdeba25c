"""`loadgen serve`: the simulated inference server, to try things on."""

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
        list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Override a key, e.g. --set ttft=100ms.")
    ] = None,
) -> None:
    """Serve simulated token streams: POST /v1/chat/completions, GET /v1/models, /health, /metrics, /sse."""
    try:
        trio.run(_serve, load_sim_script(script, set_ or ()), host, port)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None
    except OSError as error:
        raise typer.BadParameter(f"cannot listen on {host} port {port}: {error.strerror or error}") from None


async def _serve(script: SimScript, host: str, port: int) -> None:
    console = Console(stderr=True)
    listeners, url = await open_listeners(host, port)
    server = SimServer(script)
    console.print(f"simulated server on {url} (Ctrl-C ends it); try", highlight=False, soft_wrap=True)
    body = '{"messages": [{"role": "user", "content": "hi"}], "stream": true, "max_tokens": 10}'
    console.print(f"  curl -N {url}/v1/chat/completions -d '{body}'", highlight=False, soft_wrap=True)
    try:
        await server.run(listeners)
    finally:
        ended = ", ".join(f"{count} {state}" for state, count in server.finished.items()) or "no streams"
        console.print(f"{ended}; at most {server.max_open} open at once", highlight=False)
