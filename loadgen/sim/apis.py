"""The APIs that are simulated, by their paths: how each one's requests are read, and what its events look like.

Adding one is a row of ``APIS`` and a class in events.py.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from loadgen.sim.chat import (
    DEFAULT_MODEL,
    AzureEvents,
    ChatEvents,
    ChatJson,
    GenerateRequest,
    MistralEvents,
    asks_usage,
    characters_to_tokens,
    count_prompt_tokens,
    decode_object,
    parse_chat,
    read_max_tokens,
    read_messages,
)  # fmt: skip
from loadgen.sim.events import (
    CompletionEvents,
    GeminiEvents,
    LlamaCppEvents,
    MessagesEvents,
    OllamaEvents,
    OllamaGenerateEvents,
    ResponsesEvents,
    TgiEvents,
    TritonEvents,
)  # fmt: skip
from loadgen.sim.http import Framing
from loadgen.sim.reply import Reply
from loadgen.sim.scheduler import Job
from loadgen.workload.sim_script import SimScript

BuildReply = Callable[[Job, GenerateRequest, Framing, SimScript], Reply]


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """``parse`` raises ValueError with a sentence for the 400. ``whole``: the answer to a request that asks for no stream."""

    parse: Callable[[bytes], GenerateRequest]
    events: BuildReply
    whole: BuildReply | None = None

    def build_reply(self, job: Job, asked: GenerateRequest, framing: Framing, script: SimScript) -> Reply:
        build = self.events if asked.stream or self.whole is None else self.whole
        return build(job, asked, framing, script)


def _parser(
    prompt: Callable[[dict[str, Any]], int], *max_tokens: str, streams: bool | None = False, usage: bool = True
) -> Callable[[bytes], GenerateRequest]:
    """``streams``: whether a request that does not say wants a stream; None: it always does. ``usage``: it comes unasked."""

    def parse(body: bytes) -> GenerateRequest:
        data = decode_object(body)
        tokens = prompt(data)
        if streams is not None and data.get("stream", streams) is not True:
            raise ValueError("stream must be true: of this API only streams are simulated")
        return GenerateRequest(
            model=str(data.get("model") or DEFAULT_MODEL),
            prompt_tokens=tokens,
            max_tokens=read_max_tokens(data, *max_tokens),
            stream=True,
            include_usage=usage or asks_usage(data),
        )

    return parse


def _text_at(key: str) -> Callable[[dict[str, Any]], int]:
    def count(data: dict[str, Any]) -> int:
        text = data.get(key)
        if not isinstance(text, str) or not text:
            raise ValueError(f"{key} must be a text that is not empty")
        return characters_to_tokens(len(text))

    return count


def _messages(data: dict[str, Any]) -> int:
    return count_prompt_tokens([{"content": data.get("system")}, *read_messages(data, "messages")])


def _input(data: dict[str, Any]) -> int:
    """Of responses: messages, or a text that stands for one."""
    return _text_at("input")(data) if isinstance(data.get("input"), str) else count_prompt_tokens(read_messages(data, "input"))


def _contents(data: dict[str, Any]) -> int:
    system = data.get("systemInstruction")
    contents = [*([system] if isinstance(system, dict) else []), *read_messages(data, "contents")]
    return count_prompt_tokens([{"content": content.get("parts")} for content in contents])


APIS: Final[Mapping[str, Api]] = {
    "/v1/chat/completions": Api(parse=parse_chat, events=ChatEvents, whole=ChatJson),
    "/v1/completions": Api(parse=_parser(_text_at("prompt"), "max_tokens", usage=False), events=CompletionEvents),
    "/v1/responses": Api(parse=_parser(_input, "max_output_tokens"), events=ResponsesEvents),
    "/v1/messages": Api(parse=_parser(_messages, "max_tokens"), events=MessagesEvents),
    "/api/chat": Api(parse=_parser(_messages, "options.num_predict", streams=True), events=OllamaEvents),
    "/api/generate": Api(parse=_parser(_text_at("prompt"), "options.num_predict", streams=True), events=OllamaGenerateEvents),
    "/generate_stream": Api(parse=_parser(_text_at("inputs"), "parameters.max_new_tokens", streams=None), events=TgiEvents),
    "/completion": Api(parse=_parser(_text_at("prompt"), "n_predict"), events=LlamaCppEvents),
    "/mistral/v1/chat/completions": Api(parse=parse_chat, events=MistralEvents, whole=ChatJson),
    "/openai/deployments/*/chat/completions": Api(parse=parse_chat, events=AzureEvents, whole=ChatJson),
    "/v1beta/models/*:streamGenerateContent": Api(
        parse=_parser(_contents, "generationConfig.maxOutputTokens", streams=None), events=GeminiEvents
    ),
    "/v2/models/*/generate_stream": Api(
        parse=_parser(_text_at("text_input"), "max_tokens", "parameters.max_tokens", streams=None), events=TritonEvents
    ),
}
_PATTERNS: Final = {path: api for path, api in APIS.items() if "*" in path}


def find_api(path: str) -> Api | None:
    """The API at a path; one segment of some is the name of a model or deployment, whatever it is."""
    return APIS.get(path) or next((api for pattern, api in _PATTERNS.items() if fnmatchcase(path, pattern)), None)
