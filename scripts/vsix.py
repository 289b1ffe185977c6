"""Build the extension's VSIX: bundle, libraries, package.

    python scripts/vsix.py [--target linux-x64]

A VSIX is for one platform, since libcst is partly native. Its native half also differs between Python versions, but
everything else in its wheels is the same, so the wheels of several versions go into one folder.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from node import ROOT, run

LIBRARIES = ROOT / "bundled" / "libs"
REQUIREMENTS = ROOT / "extension" / "requirements.txt"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
# The editor's name of a platform -> the names that wheels for it may carry. libcst has no wheels for Intel Macs.
PLATFORMS = {
    "alpine-x64": ("musllinux_1_2_x86_64", "musllinux_1_1_x86_64"),
    "darwin-arm64": ("macosx_11_0_arm64", "macosx_10_12_universal2"),
    "linux-arm64": ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64"),
    "linux-x64": ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"),
    "win32-arm64": ("win_arm64",),
    "win32-x64": ("win_amd64",),
}
LEFT_OUT = ("/tests/", "/__pycache__/")
# What the server imports before it can answer. Compiling it would make the first start twice as long.
COMPILED = ("attr", "attrs", "cattrs", "lsprotocol", "pygls")


def this_platform() -> str:
    system = {"Linux": "linux", "Darwin": "darwin", "Windows": "win32"}[platform.system()]
    processor = "arm64" if platform.machine().lower() in {"arm64", "aarch64"} else "x64"
    return f"{system}-{processor}"


def download(target: str, python: str, folder: Path) -> None:
    """Fetch the wheels of all requirements as `python` on `target` would install them."""
    platforms = [part for name in PLATFORMS[target] for part in ("--platform", name)]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    choice = ["--implementation", "cp", "--python-version", python, *platforms]
    subprocess.run([*pip, *choice, "--dest", str(folder), "--requirement", str(REQUIREMENTS)], check=True)


def unpack(wheels: Iterable[Path], folder: Path) -> None:
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            kept = [name for name in archive.namelist() if not any(part in f"/{name}" for part in LEFT_OUT)]
            archive.extractall(folder, kept)


def compile_libraries(folder: Path) -> None:
    """For the Pythons of this machine; another one compiles for itself, once.

    The compiled files are taken as they are: unpacking a VSIX changes the times of their sources.
    """
    found = (shutil.which(f"python{version}") for version in PYTHONS)
    for python in dict.fromkeys((sys.executable, *filter(None, found))):
        command = [python, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
        # A stand-in for a Python that is not installed fails, and is left out.
        subprocess.run([*command, *(str(folder / name) for name in COMPILED)], check=False, stderr=subprocess.DEVNULL)


def stamp_text(target: str) -> str:
    return f"{target}\n{' '.join(PYTHONS)}\n{' '.join(COMPILED)}\n{REQUIREMENTS.read_text(encoding='utf-8')}"


def bundle(target: str) -> None:
    """Fill `bundled/libs` for `target`, unless that is what is there."""
    stamp = LIBRARIES.parent / ".stamp"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == stamp_text(target):
        return
    shutil.rmtree(LIBRARIES.parent, ignore_errors=True)
    LIBRARIES.mkdir(parents=True)
    # Only built things live here, so the folder keeps itself out of version control.
    (LIBRARIES.parent / ".gitignore").write_text("*\n", encoding="utf-8")
    with tempfile.TemporaryDirectory() as temporary:
        for python in PYTHONS:
            download(target, python, Path(temporary))
        unpack(sorted(Path(temporary).glob("*.whl")), LIBRARIES)
    compile_libraries(LIBRARIES)
    stamp.write_text(stamp_text(target), encoding="utf-8")


def vsix_path(target: str) -> Path:
    manifest = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))
    return ROOT / "dist" / f"{manifest['name']}-{manifest['version']}-{target}.vsix"


def package(target: str) -> Path:
    out = vsix_path(target)
    out.parent.mkdir(exist_ok=True)
    vsce = ["node_modules/@vscode/vsce/vsce", "package", "--target", target, "--out", str(out)]
    # The bundle holds what the extension needs, and the README's links are meant for the repository.
    options = ["--no-dependencies", "--allow-missing-repository", "--no-rewrite-relative-links", "--skip-license"]
    for command in (["extension/build.mjs"], [*vsce, *options]):
        code = run("node", command)
        if code != 0:
            raise SystemExit(code)
    return out


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Build the extension's VSIX.")
    parser.add_argument("--target", choices=sorted(PLATFORMS), default=this_platform())
    target = str(parser.parse_args(arguments).target)
    bundle(target)
    out = package(target)
    print(f"{out.relative_to(ROOT)}  {out.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
