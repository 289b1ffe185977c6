"""How long an editor waits for answers about a long file while a run keeps the machine busy."""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.benchmarks.server import served
from tests.benchmarks.table import Table
from tests.lsp.wire import Wire

from forwardlens.source.paths import uri_from_path

LINES = 5_000
REQUESTS = 200
BAR_MS = 50.0
_HEAD = """import torch
from torch import nn

"""
_LAYER = """
class Layer{n}(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        for t in range(x.size(0)):
            x[t] = torch.where(x[t] > 0, x[t], self.linear(x[t]))
        return x

"""
_TAIL = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([{layers}])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x.clone())
        return x


def build():
    return Net().eval(), (torch.ones({rows}, 8),)
"""


def long_file(rows: int) -> str:
    """Some 5,000 lines with costs and findings all over; `rows` says how much they do."""
    count = LINES // (_LAYER.count("\n"))
    layers = ", ".join(f"Layer{n}()" for n in range(count))
    return _HEAD + "".join(_LAYER.format(n=n) for n in range(count)) + _TAIL.format(layers=layers, rows=rows)


def run() -> Table:
    with tempfile.TemporaryDirectory() as name:
        times, lines = _measured(Path(name))
    worst = max(_p99(values) for values in times.values())
    return Table(
        f"Answers about a file of {lines:,} lines while a run is going on",
        f"99 of 100 answers within {BAR_MS:.0f} ms, {REQUESTS} requests of each kind",
        f"within {worst:.1f} ms",
        ("request", "median ms", "99 of 100 within ms", "longest ms"),
        [
            (kind, f"{sorted(values)[len(values) // 2]:.1f}", f"{_p99(values):.1f}", f"{max(values):.1f}")
            for kind, values in times.items()
        ],
    )


def _p99(values: list[float]) -> float:
    return sorted(values)[int(0.99 * len(values)) - 1]


def _measured(folder: Path) -> tuple[dict[str, list[float]], int]:
    """Milliseconds of every answer by kind of request, and the file's lines."""
    text = long_file(rows=2)
    (folder / "long.py").write_text(text, encoding="utf-8")
    # The second run is another program, so that the results of the first stay as they are, and it lasts.
    (folder / "busy.py").write_text(long_file(rows=60), encoding="utf-8")
    with served(folder) as server:
        uri = server.open(folder / "long.py")
        assert server.profile(uri, "long.py:build")["status"] == "done"
        running = server.begin_profile(uri_from_path(str(folder / "busy.py")), "busy.py:build")
        time.sleep(3.0)  # the run has begun to use the processor
        times = {kind: _asked(server.wire, method, params) for kind, method, params in _requests(uri, text)}
        assert running not in server.wire.answers, "the run ended before the last answer"
    return times, text.count("\n")


def _asked(wire: Wire, method: str, params: Mapping[str, Any]) -> list[float]:
    times: list[float] = []
    gc.disable()  # this process keeps the answers, and would look through them while the clock runs
    for _ in range(REQUESTS):
        start = time.perf_counter()
        answer = wire.ask(method, params)
        times.append(1e3 * (time.perf_counter() - start))
        assert answer is None or "error" not in answer, answer
    gc.enable()
    return times


def _requests(uri: str, text: str) -> list[tuple[str, str, dict[str, Any]]]:
    lines = text.split("\n")
    costly = next(number for number, line in enumerate(lines) if "torch.where" in line)
    file = {"uri": uri}
    whole = {"start": {"line": 0, "character": 0}, "end": {"line": len(lines), "character": 0}}
    line = {"start": {"line": costly, "character": 0}, "end": {"line": costly, "character": 20}}
    place = {"line": costly, "character": 22}
    return [
        ("inlay hints of the whole file", "textDocument/inlayHint", {"textDocument": file, "range": whole}),
        ("hover", "textDocument/hover", {"textDocument": file, "position": place}),
        ("lenses", "textDocument/codeLens", {"textDocument": file}),
        (
            "code actions of a line",
            "textDocument/codeAction",
            {"textDocument": file, "range": line, "context": {"diagnostics": []}},
        ),
    ]
