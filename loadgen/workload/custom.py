"""``target.custom``: an API that no dialect knows, told by JSON pointers into its requests and its events."""

from copy import deepcopy
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, model_validator

from loadgen.workload.fields import Body, Text, describe, several
from loadgen.workload.pointer import Pointer, parse_pointer

PLACES: Final = ("prompt", "messages", "model", "max_tokens")


def _read_pointer(value: object) -> Pointer:
    if isinstance(value, Pointer):
        return value
    if not isinstance(value, str):
        raise ValueError(f"must be a JSON pointer such as /choices/0/text, got {describe(value)}")  # noqa: TRY004 - pydantic
    return parse_pointer(value)


PointerField = Annotated[Pointer, PlainValidator(_read_pointer), PlainSerializer(str)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, hide_input_in_errors=True)


class CustomRequest(_Part):
    """A POST of ``body`` with what was drawn for the stream put where the pointers say; without any of these a GET."""

    body: Body = Field(default={}, description="what is the same in every request")
    prompt: PointerField | None = Field(default=None, description="where the prompt goes, as one text")
    messages: PointerField | None = Field(default=None, description="where the messages go, as OpenAI has them")
    model: PointerField | None = Field(default=None, description="where target.model goes")
    max_tokens: PointerField | None = Field(default=None, description="where max_tokens goes")

    @model_validator(mode="after")
    def _places_exist(self) -> Self:
        """All places at once: one may be within what another one makes."""
        body = deepcopy(self.body)
        problems: list[tuple[tuple[str | int, ...], str, Any]] = []
        for name in PLACES:
            pointer: Pointer | None = getattr(self, name)
            if pointer is None:
                continue
            try:
                pointer.put(body, "")
            except ValueError as error:
                problems.append(((name,), str(error), str(pointer)))
        if problems:
            raise several("request", problems)
        return self

    def fill(self, **values: Any) -> dict[str, Any]:
        """The body with the values at their places; those that are None, or have no place, are left out."""
        body = deepcopy(self.body)
        for name in PLACES:
            pointer: Pointer | None = getattr(self, name)
            if pointer is not None and values[name] is not None:
                pointer.put(body, values[name])
        return body


class CustomSpec(_Part):
    """How to ask, and where an event says what. Events are JSON."""

    events: Literal["sse", "ndjson"] = Field(default="sse", description="server-sent events, or one JSON object a line")
    content_type: Text | None = Field(
        default=None, description="of the answer; default text/event-stream or application/x-ndjson"
    )
    request: CustomRequest = Field(default=CustomRequest(), description="what is sent")
    text: PointerField = Field(description="the answer's text in an event; empty text is a token without text")
    reasoning: PointerField | None = Field(default=None, description="reasoning text")
    finish: PointerField | None = Field(
        default=None, description="the finish reason, or a flag; without it an answer is finished once it has begun"
    )
    usage: PointerField | None = Field(
        default=None, description="completion tokens, or an object with counts as OpenAI names them"
    )
    error: PointerField = Field(default=parse_pointer("/error"), description="anything there is an error")
    end: Text | None = Field(default=None, description="data of the event that ends the stream, such as [DONE]")
