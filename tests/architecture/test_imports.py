"""The arrows of ARCHITECTURE.md hold in the code."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "server" / "forwardlens"
# Each part may import those before it; parts in one row do not know each other.
LAYERS = [
    ["model"],
    ["source"],
    ["attribution"],
    ["rules"],
    ["runner"],
    ["fixes"],
    ["config"],
    ["config_schema", "workflow"],
    ["report"],
    ["lsp"],
    ["cli"],
]
RANK = {part: rank for rank, row in enumerate(LAYERS) for part in row}
MODULES = sorted(PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_parts(path: Path) -> set[str]:
    names = [name.split(".") for name in imports(path)]
    return {name[1] for name in names if name[0] == "forwardlens" and len(name) > 1 and name[1] in RANK}


@pytest.mark.parametrize("path", [p for p in MODULES if part_of(p) in RANK], ids=lambda p: str(p.relative_to(PACKAGE)))
def test_parts_import_only_what_stands_before_them(path: Path) -> None:
    part = part_of(path)
    too_late = {other for other in own_parts(path) if other != part and RANK[other] >= RANK[part]}
    assert not too_late, f"{part} must not import {too_late}"


def test_every_part_is_ranked() -> None:
    unranked = {part_of(path) for path in MODULES} - RANK.keys() - {"worker", "__init__", "__main__"}
    assert not unranked


def users_of(library: str) -> set[str]:
    return {part_of(p) for p in MODULES if any(name.split(".")[0] == library for name in imports(p))}


@pytest.mark.parametrize(
    ("library", "parts"),
    [
        ("torch", {"worker"}),
        ("pygls", {"lsp"}),
        ("lsprotocol", {"lsp"}),
        ("click", {"cli"}),
        ("libcst", {"source", "rules"}),
    ],
)
def test_libraries_stay_in_their_part(library: str, parts: set[str]) -> None:
    assert users_of(library) <= parts


def test_worker_imports_the_standard_library_and_torch_only() -> None:
    outside = {
        name
        for path in MODULES
        if part_of(path) == "worker"
        for name in (full.split(".")[0] for full in imports(path))
        if name != "torch" and name not in sys.stdlib_module_names
    }
    assert not outside


def test_nothing_imports_the_worker() -> None:
    for path in MODULES:
        if part_of(path) != "worker":
            assert not any(name.startswith("forwardlens.worker") for name in imports(path)), path


def test_server_starts_without_torch() -> None:
    code = "import sys; sys.modules['torch'] = None; import forwardlens.lsp.server, forwardlens.cli; print('ok')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "ok", done.stderr


def test_worker_compiles_for_the_oldest_python_it_supports() -> None:
    for path in MODULES:
        if part_of(path) == "worker":
            ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 10))
