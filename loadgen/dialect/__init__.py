"""What servers say inside their streams: one file a dialect, one line in the table."""

from typing import Final

from loadgen.dialect.base import Dialect, HttpRequest, Reader
from loadgen.dialect.openai_chat import OpenAiChat
from loadgen.dialect.plain_sse import PlainSse

DIALECTS: Final[dict[str, Dialect]] = {
    "openai-chat": OpenAiChat(),
    "plain-sse": PlainSse(),
}

__all__ = ["DIALECTS", "Dialect", "HttpRequest", "Reader"]
