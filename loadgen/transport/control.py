"""Control calls: the few requests that are no load and measure nothing. httpx serves them."""

import ssl
from typing import Final

import httpx

from loadgen.errors import ConnectError, shorten
from loadgen.workload.plan import Target

TIMEOUT_S: Final = 10.0
_CHAT_SUFFIXES: Final = ("/chat/completions", "/completions", "/responses", "/messages")


def models_path(path: str) -> str:
    """Where an OpenAI-compatible server lists its models, given where it takes requests: beside it."""
    base = path.partition("?")[0]
    for suffix in _CHAT_SUFFIXES:
        if base.endswith(suffix):
            return base.removesuffix(suffix) + "/models"
    return "/v1/models"


async def first_model(target: Target, context: ssl.SSLContext | None, *, http2: bool = False) -> str:
    """The first model that the target serves, for ``model: auto``. Raises ConnectError when it names none."""
    url = f"{target.scheme}://{target.authority}{models_path(target.path)}"
    transport = httpx.AsyncHTTPTransport(verify=context or True, uds=target.unix_path, http1=not http2, http2=http2)
    try:
        async with httpx.AsyncClient(transport=transport, timeout=TIMEOUT_S, trust_env=False) as client:
            response = await client.get(url, headers=dict(target.headers))
            response.raise_for_status()
            return str(response.json()["data"][0]["id"])
    except httpx.HTTPStatusError as error:
        raise ConnectError(f"model: auto: GET {url} answered {error.response.status_code}; name the model") from None
    except httpx.HTTPError as error:
        raise ConnectError(f"model: auto: GET {url} failed: {error}") from None
    except (ValueError, LookupError, TypeError):
        said = shorten(response.content, 80)
        raise ConnectError(f"model: auto: GET {url} listed no model, it said {said}; name the model") from None
