"""Pydantic's errors in our words: path and line in the file, what was expected, what came, and the way out."""

from difflib import get_close_matches
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from loadgen.errors import Problem
from loadgen.workload.document import Document, Path, dotted
from loadgen.workload.fields import describe

# In the format, not in this version: never ignored. `*` stands for a list's item.
NOT_YET: Final = frozenset({
    "target.metrics",
    "load.*.arrivals",
    "load.*.rate",
    "load.*.process",
})  # fmt: skip

# What to do about a key that must be there.
_MISSING: Final = {
    "loadgen": "is missing: begin the file with `loadgen: 1`, the version of its format",
    "target": "is missing: say where streams go, such as target: {url: http://127.0.0.1:8000/v1/chat/completions}",
    "load": "is missing: say how many streams for how long, such as load: [{hold: 60s, streams: 50}]",
    "load.*.streams": "is missing: say how many streams, such as streams: 50, or [1, 400] in a ramp",
    "limit.streams": "is missing: say how many streams may be open at once",
}


def find_problems(error: ValidationError, document: Document, model: type[BaseModel]) -> list[Problem]:
    """One Problem an error. What follows only from a value that could not be made out is left out."""
    return [
        _problem(details, path, document, model)
        for details in error.errors(include_url=False)
        if not _is_echo(details, path := _path(details), document)
    ]


def _path(details: ErrorDetails) -> Path:
    return tuple(part for part in details["loc"] if part != "[key]")


def _is_echo(details: ErrorDetails, path: Path, document: Document) -> bool:
    """Whether an error only follows from something that is told elsewhere."""
    match details["type"]:
        case "too_short" if document.get(path):
            return True  # all items are wrong, each with an error of its own
        case "missing" if _has_not_yet(path[:-1], document):
            return True  # a phase of a later version needs other keys
    for unset in document.unset:
        if path[: len(unset)] == unset:
            return True
        if unset[: len(path)] == path and details["type"] == "value_error":
            return True  # a check of the section around it, which saw nothing in its place
    return False


def _has_not_yet(path: Path, document: Document) -> bool:
    section = document.get(path)
    return isinstance(section, dict) and any(_pattern((*path, key)) in NOT_YET for key in section)


def _problem(details: ErrorDetails, path: Path, document: Document, model: type[BaseModel]) -> Problem:
    message = _message(details, path, document, model)
    if any(path[: len(secret)] == secret for secret in document.secret_paths):
        message = message.partition(", got ")[0]
    override = next((set_ for set_ in document.overrides if path[: len(set_)] == set_), None)
    if override is not None:
        message += f" (given by --set {dotted(override)})"
    return Problem(path=dotted(path), message=message, line=document.line(path))


def _message(details: ErrorDetails, path: Path, document: Document, model: type[BaseModel]) -> str:
    context: dict[str, Any] = details.get("ctx", {})
    value = document.get(path, details["input"])
    given = describe(value)
    match details["type"]:
        case "value_error":
            return str(context.get("error") or context["text"])
        case "missing":
            return _MISSING.get(_pattern(path), "is missing")
        case "extra_forbidden":
            return _unknown_key(path, model)
        case "greater_than_equal":
            return f"must be at least {context['ge']:g}, got {given}"
        case "greater_than":
            return f"must be more than {context['gt']:g}, got {given}"
        case "less_than_equal":
            return f"must be at most {context['le']:g}, got {given}"
        case "int_type" | "int_parsing" | "int_from_float":
            hint = "; leave the quotes out" if isinstance(value, str) and value.isdecimal() else ""
            return f"must be a whole number, got {given}{hint}"
        case "float_type" | "float_parsing" | "finite_number":
            return f"must be a number, got {given}"
        case "bool_type" | "bool_parsing":
            return f"must be true or false, got {given}"
        case "string_type":
            return f"must be text, got {given}{'' if isinstance(value, dict | list) else '; put it in quotes'}"
        case "string_too_short" | "too_short":
            return "must not be empty"
        case "literal_error" | "enum":
            return _not_one_of(str(context["expected"]), path, document, given)
        case "model_type" | "dict_type" | "model_attributes_type":
            return f"must be a mapping (key: value), got {given}"
        case "tuple_type" | "list_type":
            return f"must be a list, got {given}"
        case _:
            return f"{details['msg']}, got {given}"


def _not_one_of(expected: str, path: Path, document: Document, given: str) -> str:
    if path == ("loadgen",):
        return f"this loadgen reads format {expected}, got {given}"
    choices = expected.replace("'", "").replace(" or ", ", ").split(", ")
    near = get_close_matches(str(document.get(path)), choices, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    listed = " or ".join(choices) if len(choices) <= 4 else f"one of {', '.join(choices)}"
    return f"must be {listed}, got {given}{hint}"


def _unknown_key(path: Path, model: type[BaseModel]) -> str:
    if _pattern(path) in NOT_YET:
        return "this version of loadgen cannot do that yet"
    keys = list(_model_at(model, path[:-1]).model_fields)
    near = get_close_matches(str(path[-1]), keys, n=1)
    return f"unknown key; did you mean {near[0]}?" if near else f"unknown key; there are {', '.join(keys)}"


def _pattern(path: Path) -> str:
    return dotted("*" if isinstance(part, int) else part for part in path)


def _model_at(model: type[BaseModel], path: Path) -> type[BaseModel]:
    for part in path:
        if isinstance(part, str):
            model = _model_in(model.model_fields[part].annotation) or model
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model within ``X``, ``X | None`` or ``tuple[X, ...]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part)) is not None), None)
