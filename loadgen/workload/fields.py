"""Field types of the schema: what one value of a workload may be. Their ValueErrors say what was expected."""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, PlainSerializer, PlainValidator, Strict, ValidationError, ValidationInfo
from pydantic_core import InitErrorDetails, PydanticCustomError

from loadgen.errors import shorten
from loadgen.workload.address import check_headers, parse_url
from loadgen.workload.prompt_file import PromptFile
from loadgen.workload.slo import SloRule, parse_slo
from loadgen.workload.units import Duration, parse_size, write_size

_NAME_CHARACTERS: Final = 100
_UNIX_PATH_BYTES: Final = 107  # sun_path of Linux has 108, with its closing NUL (unix(7))
_HTTP: Final = ("1.1", "2")
_HTTP_LATER: Final = frozenset({"3", "grpc"})
_SHARING: Final = ("per-stream", "as-needed")
_MIN_CONNECTION_WINDOW: Final = 65_535  # what every HTTP/2 connection begins with; it cannot be made smaller (RFC 9113, 6.9.2)
_MAX_WINDOW: Final = (1 << 31) - 1


def several(title: str, problems: list[tuple[tuple[str | int, ...], str, Any]]) -> ValidationError:
    """One error that holds many, each (path below the field, message, input): pydantic adds them to its own."""
    return ValidationError.from_exception_data(
        title,
        [
            InitErrorDetails(type=PydanticCustomError("value_error", "{text}", {"text": message}), loc=path, input=given)
            for path, message, given in problems
        ],
    )


def describe(value: object) -> str:
    """A value for a message: texts quoted and shortened, the rest as YAML writes it, containers by their kind."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case str():
            return shorten(value)
        case Mapping():
            return "a mapping"
        case list() | tuple():
            return "a list"
    return str(value)


def find_file(written: str, info: ValidationInfo) -> Path:
    """The absolute path of a file that a workload names: relative ones are meant from the workload's own folder."""
    folder: Path = (info.context or {}).get("folder", Path())
    path = (folder / Path(written).expanduser()).absolute()
    if not path.exists():
        raise ValueError(f"there is no file {path}")
    if not path.is_file():
        raise ValueError(f"is no file: {path}")
    return path


def _check_variant_name(value: str) -> str:
    """It stands in tags of the interval log and in file names."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,40}", value):
        raise ValueError(f"must be letters, digits, - and _ (40 at most), got {describe(value)}")
    return value


def _check_name(name: str) -> str:
    if not name or len(name) > _NAME_CHARACTERS or not name.isprintable() or "/" in name or name.startswith("."):
        raise ValueError(
            f"names the run's folder: 1 to {_NAME_CHARACTERS} printable characters without /, not beginning with a "
            f"dot, got {shorten(name)}"
        )
    return name


def _check_url(url: str) -> str:
    parse_url(url)
    return url


def _read_headers(value: object) -> dict[str, str]:
    """All that is wrong with all headers at once; no value is ever shown."""
    if not isinstance(value, Mapping):
        raise ValueError(f"must be a mapping (Name: value), got {describe(value)}")  # noqa: TRY004 - pydantic wants it
    headers = {str(name): text for name, text in value.items() if isinstance(text, str)}
    problems = [(name, "must be text: put it in quotes") for name in value if name not in headers]
    problems += check_headers(headers)
    if problems:
        raise several("headers", [((name,), message, None) for name, message in problems])
    return headers


def _check_header_name(name: str) -> str:
    if problems := check_headers({name: ""}):
        raise ValueError(problems[0][1])
    return name.lower()


def _read_http(value: object) -> str:
    """``http: 1.1`` without quotes is a YAML float; everybody means the version."""
    text = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    spoken = " and ".join(f'"{version}"' for version in _HTTP)
    if isinstance(text, str):
        version = text.removesuffix(".0")
        if version in _HTTP:
            return version
        if version in _HTTP_LATER:
            raise ValueError(f'"{text}": this version of loadgen cannot do that yet, it speaks {spoken}')
    raise ValueError(f"must be {spoken.replace('and', 'or')}, got {describe(value)}")


def _read_connections(value: object) -> int | str:
    match value:
        case str() if value in _SHARING:
            return value
        case bool():
            pass
        case int():
            if value < 1:
                raise ValueError(f"must be at least 1, got {value}")
            return value
    raise ValueError(f"must be per-stream, as-needed or a number of connections, got {describe(value)}")


def _read_window(value: object) -> int:
    size = parse_size(value)
    if not 1 <= size <= _MAX_WINDOW:
        raise ValueError(f"must be from 1B to {_MAX_WINDOW}B, got {describe(value)}")
    return size


def _check_connection_window(size: int) -> int:
    if size < _MIN_CONNECTION_WINDOW:
        raise ValueError(f"must be at least {_MIN_CONNECTION_WINDOW}B, as large as it is from the start, got {size}B")
    return size


def _check_ca(written: str, info: ValidationInfo) -> str:
    path = find_file(written, info)
    try:
        pem = path.read_bytes()
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    if b"-----BEGIN CERTIFICATE-----" not in pem:
        raise ValueError(f"{path} holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)")
    return str(path)


def _find_unix_socket(written: str, info: ValidationInfo) -> str:
    folder: Path = (info.context or {}).get("folder", Path())
    path = str((folder / Path(written).expanduser()).absolute())
    if len(path.encode()) > _UNIX_PATH_BYTES:
        raise ValueError(f"must be at most {_UNIX_PATH_BYTES} bytes long, {path} has {len(path.encode())}")
    return path


def _open_prompt_file(value: object, info: ValidationInfo) -> PromptFile:
    if not isinstance(value, str):
        raise ValueError(f"must be the path of a file, got {describe(value)}")  # noqa: TRY004 - pydantic wants ValueError
    return PromptFile(find_file(value, info), value)


def _check_body(body: dict[str, Any]) -> dict[str, Any]:
    if body.get("stream", True) is not True:
        raise ValueError(f"stream must stay true: loadgen measures streams, got {describe(body['stream'])}")
    _check_numbers(body)
    return body


def _check_numbers(value: Any) -> None:
    match value:
        case float() if not math.isfinite(value):
            raise ValueError(f"must hold numbers that JSON has, got {value}")
        case Mapping():
            for inner in value.values():
                _check_numbers(inner)
        case list() | tuple():
            for inner in value:
                _check_numbers(inner)


def _read_rule(value: object) -> SloRule:
    if not isinstance(value, str):
        raise ValueError(f'must be a rule such as "ttft p99 < 2s", got {describe(value)}')  # noqa: TRY004 - as above
    return parse_slo(value)


Text = Annotated[str, Strict(), Field(min_length=1)]
Flag = Annotated[bool, Strict()]
Count = Annotated[int, Field(ge=1, strict=True)]
Seed = Annotated[int, Field(ge=0, strict=True)]
Weight = Annotated[float, Field(ge=0, strict=True, allow_inf_nan=False)]
Positive = Annotated[Duration, Field(gt=0)]

Name = Annotated[str, Strict(), AfterValidator(_check_name)]
VariantName = Annotated[str, Strict(), AfterValidator(_check_variant_name)]
Url = Annotated[str, Strict(), AfterValidator(_check_url)]
Headers = Annotated[dict[str, str], PlainValidator(_read_headers)]
HttpVersion = Annotated[str, PlainValidator(_read_http)]
Connections = Annotated[int | str, PlainValidator(_read_connections)]
Window = Annotated[int, PlainValidator(_read_window), PlainSerializer(write_size)]
ConnectionWindow = Annotated[Window, AfterValidator(_check_connection_window)]
HeaderName = Annotated[str, Strict(), AfterValidator(_check_header_name)]
CaFile = Annotated[str, Strict(), AfterValidator(_check_ca)]
UnixSocket = Annotated[str, Strict(), AfterValidator(_find_unix_socket)]
PromptFileField = Annotated[PromptFile, PlainValidator(_open_prompt_file), PlainSerializer(lambda file: str(file.path))]
Body = Annotated[dict[str, Any], AfterValidator(_check_body)]
Rule = Annotated[SloRule, PlainValidator(_read_rule), PlainSerializer(lambda rule: rule.text)]
