"""What servers say inside their streams: one file a dialect, one line in the table.

``custom`` is in no table: each workload makes its own.
"""

from typing import Final

from loadgen.dialect.anthropic_messages import AnthropicMessages
from loadgen.dialect.base import Dialect, HttpRequest, Reader
from loadgen.dialect.custom import Custom
from loadgen.dialect.gemini import Gemini
from loadgen.dialect.llamacpp import LlamaCpp
from loadgen.dialect.ollama import Ollama
from loadgen.dialect.openai_chat import OpenAiChat
from loadgen.dialect.openai_completions import OpenAiCompletions
from loadgen.dialect.openai_responses import OpenAiResponses
from loadgen.dialect.plain_sse import PlainSse
from loadgen.dialect.tgi import Tgi
from loadgen.dialect.triton import Triton
from loadgen.workload.custom import CustomSpec

DIALECTS: Final[dict[str, Dialect]] = {
    "openai-chat": OpenAiChat(),
    "openai-completions": OpenAiCompletions(),
    "openai-responses": OpenAiResponses(),
    "anthropic-messages": AnthropicMessages(),
    "azure": OpenAiChat(name="azure", max_tokens_key="max_completion_tokens"),
    "gemini": Gemini(),
    "llamacpp": LlamaCpp(),
    "mistral": OpenAiChat(name="mistral", ask_usage=False),  # refuses stream_options, sends usage unasked
    "ollama": Ollama(),
    "ollama-generate": Ollama(name="ollama-generate", chat=False),
    "plain-sse": PlainSse(),
    "tgi": Tgi(),
    "triton": Triton(),
}


def build_dialect(name: str, custom: CustomSpec | None = None) -> Dialect:
    """The dialect that a workload names, or describes."""
    return DIALECTS[name] if custom is None else Custom(custom)


__all__ = ["DIALECTS", "Dialect", "HttpRequest", "Reader", "build_dialect"]
