"""Imports only go down the layers of the architecture (docs/architecture.md)."""

import ast
from pathlib import Path

import pytest

import loadgen

LAYERS = ["cli", "api", "report", "cluster", "engine", "transport", "sim", "record", "dialect", "workload", "wire"]
FLOOR = {"model", "clock", "errors", "__version__"}
ROOT = Path(loadgen.__file__).parent
MODULES = sorted(p for p in ROOT.rglob("*.py") if p.parent != ROOT or p.stem == "api")


def imported_layers(path: Path) -> set[str]:
    """Second part of every ``loadgen.x...`` name that the file imports, at any depth."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "loadgen":
            names = [f"loadgen.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [node.module or ""]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("loadgen.")}
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_down(path: Path) -> None:
    layer = path.relative_to(ROOT).parts[0].removesuffix(".py")
    allowed = {*LAYERS[LAYERS.index(layer) :], *FLOOR}
    assert imported_layers(path) <= allowed


def test_no_layer_is_missing_from_the_list() -> None:
    assert {p.name for p in ROOT.iterdir() if p.is_dir() and p.name != "__pycache__"} <= set(LAYERS)


@pytest.mark.parametrize("layer", ["workload", "wire", "dialect", "record"])
def test_lower_layers_do_no_io(layer: str) -> None:
    """Parsing, deciding and counting know no trio and no sockets."""
    for path in (ROOT / layer).rglob("*.py"):
        imports = {
            alias.name.split(".")[0]
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in (node.names if isinstance(node, ast.Import) else [ast.alias(node.module or "")])
        }
        assert not imports & {"trio", "socket", "httpx", "ssl"}, path
