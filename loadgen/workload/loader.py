"""From a file to a Workload: YAML, ``--set``, environment and schema, with all problems told at once."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from loadgen.errors import Problem, WorkloadError
from loadgen.workload.document import Document, parse_document
from loadgen.workload.fields import describe
from loadgen.workload.masking import mask_values
from loadgen.workload.overrides import apply_overrides
from loadgen.workload.problems import find_problems
from loadgen.workload.schema import Origin, Workload
from loadgen.workload.sim_script import SimScript

_EITHER: Final = {"url", "sim"}
_MAX_BYTES: Final = 4 << 20  # a larger file is no workload but, say, a data set named by mistake


def load(path: str | os.PathLike[str], overrides: Sequence[str] = (), env: Mapping[str, str] | None = None) -> Workload:
    """A workload file, checked. ``overrides`` are ``path=value``; ``env`` is os.environ unless given.

    Raises WorkloadError with every problem found, each with its path and line. Opens no connection.
    """
    file = Path(path)
    name = file.stem.lstrip(".") or "workload"
    return loads(_read(file), str(path), overrides=overrides, env=env, folder=file.parent, name=name)


def loads(
    text: str,
    source: str = "<string>",
    *,
    overrides: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    folder: Path | None = None,
    name: str = "workload",
) -> Workload:
    """The same from text. Files that it names are looked for in ``folder`` (default: the current one)."""
    document = _open(text, source, overrides, env)
    origin = Origin(source=source, secrets=frozenset(document.secrets), line_of=document.line)
    context = {"folder": Path() if folder is None else folder, "origin": origin}
    workload: Workload | None = None
    try:
        workload = Workload.model_validate({"name": name} | document.data, context=context)
    except ValidationError as error:
        document.problems += find_problems(error, document, Workload)
    if workload is not None and workload.variants and not document.problems:
        workload._made.update(_make_variants(workload, document, context))  # noqa: SLF001 - it is being made
    if document.problems or workload is None:
        raise _all_problems(source, document)
    return workload


def _make_variants(workload: Workload, document: Document, context: dict[str, object]) -> dict[str, Workload]:
    """Each variant as a workload of its own; what is wrong in one is told at its place below ``variants``."""
    base = {key: value for key, value in document.data.items() if key not in {"variants", "rounds"}}
    made = {}
    for name, changes in document.data["variants"].items():
        place = ("variants", name)
        merged = Document(
            data=_with_changes(base, changes),
            lines={**document.lines, **{p[2:]: n for p, n in document.lines.items() if p[:2] == place and len(p) > 2}},
            secrets=document.secrets,
            secret_paths={*document.secret_paths, *(p[2:] for p in document.secret_paths if p[:2] == place)},
        )
        try:
            made[name] = Workload.model_validate({"name": workload.name} | merged.data, context=context)
        except ValidationError as error:
            found = find_problems(error, merged, Workload)
            document.problems += [replace(p, path=f"variants.{name}.{p.path}", line=p.line) for p in found]
    return made


def _with_changes(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Mappings are merged, all else is replaced; a target that names a url leaves ``sim`` behind, and the other way round."""
    merged = dict(base)
    for key, value in changes.items():
        mine = merged.get(key)
        if not isinstance(mine, dict) or not isinstance(value, dict):
            merged[key] = value
            continue
        replaced = _EITHER - value.keys() if key == "target" and _EITHER & value.keys() else set()
        kept = {k: v for k, v in mine.items() if k not in replaced}
        merged[key] = _with_changes(kept, value)
    return merged


def load_sim_script(path: Path | None, overrides: Sequence[str] = ()) -> SimScript:
    """The script of a simulated server: a YAML file of what may stand under ``sim:`` (None: all defaults)."""
    source = "--set" if path is None else str(path)
    document = _open("{}" if path is None else _read(path), source, overrides, None)
    script: SimScript | None = None
    try:
        script = SimScript.model_validate(document.data)
    except ValidationError as error:
        document.problems += find_problems(error, document, SimScript)
    if document.problems or script is None:
        raise _all_problems(source, document)
    return script


def _open(text: str, source: str, overrides: Sequence[str], env: Mapping[str, str] | None) -> Document:
    """The document with overrides applied; its data is a mapping."""
    env = os.environ if env is None else env
    document = parse_document(text, source, env)
    if document.data is None and not document.problems:
        raise WorkloadError(source, [Problem(path="", message="is empty; a workload begins with `loadgen: 1`")])
    if not isinstance(document.data, dict):
        message = f"must be a mapping (key: value) that begins with `loadgen: 1`, got {describe(document.data)}"
        raise WorkloadError(source, document.problems or [Problem(path="", message=message)])
    apply_overrides(document, overrides, env)
    return document


def _all_problems(source: str, document: Document) -> WorkloadError:
    """In the order of the file, those without a line last; values that must not be shown are masked."""
    problems = sorted(document.problems, key=lambda problem: (problem.line is None, problem.line or 0))
    return WorkloadError(
        source,
        [Problem(path=p.path, line=p.line, message=mask_values(p.message, document.secrets)) for p in problems],
    )


def _read(path: Path) -> str:
    """The text of a file; what is in the way becomes a WorkloadError."""
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
        if len(raw) > _MAX_BYTES:
            raise _unreadable(path, f"is larger than {_MAX_BYTES >> 20} MiB: this is no workload file")
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"is no text in UTF-8: byte 0x{error.object[error.start]:02x} at offset {error.start}"
        raise _unreadable(path, message) from None
    except OSError as error:
        raise _unreadable(path, _os_reason(path, error)) from None


def _os_reason(path: Path, error: OSError) -> str:
    match error:
        case FileNotFoundError():
            return "there is no such file"
        case IsADirectoryError():
            found = ", ".join(sorted(entry.name for entry in path.glob("*.y*ml"))[:5])
            return "is a directory" + (f"; in it are {found}" if found else "")
        case PermissionError():
            return "may not be read (permission denied)"
    return f"cannot be read: {error.strerror or error}"


def _unreadable(path: Path, message: str) -> WorkloadError:
    return WorkloadError(str(path), [Problem(path="", message=message)])
