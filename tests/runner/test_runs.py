"""Runs of real programs in real workers: what works, and how each failure is told."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.entries.harness import NEVER, calls, quiet

from forwardlens.attribution.attribute import attribute
from forwardlens.model import Profile
from forwardlens.runner.process import Worker
from forwardlens.runner.request import RunFailedError, RunRequest
from forwardlens.runner.runner import record, start_worker, try_edit

pytestmark = pytest.mark.torch

MODEL = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        for _ in range(3):
            x = torch.relu(self.linear(x))
        return x + 1.0


def build():
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(4, 8),)
"""


def run(folder: Path, entry: str, text: str = MODEL, name: str = "model.py", **options: Any) -> Profile:
    """Write `text` to `name` in `folder` and profile `entry` as quickly as possible."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    request = RunRequest(entry, folder, iterations=2, warmup=1, **options)  # type: ignore[arg-type]
    with start_worker(request, quiet, NEVER) as worker:
        return attribute(record(worker, request, quiet, NEVER), entry)


def test_callable_of_a_file_is_profiled_and_adds_up(tmp_path: Path) -> None:
    profile = run(tmp_path, "model.py:build")
    assert calls(profile)["self.linear(x)"] == 3
    assert calls(profile)["x + 1.0"] == 1
    total = sum(cost.self_ms for cost in profile.lines)
    median = profile.forward.wall_ms.median
    assert total + profile.unattributed_share * median == pytest.approx(median)


def test_operators_say_their_dtypes_and_the_run_how_precise_its_products_are(tmp_path: Path) -> None:
    text = MODEL.replace("return x + 1.0", "return x.to(torch.bfloat16), torch.arange(8) + 1").replace(
        "    torch.manual_seed(0)", '    torch.set_float32_matmul_precision("high")'
    )
    profile = run(tmp_path, "model.py:build", text)
    dtypes = {op.name: op.dtypes for cost in profile.lines for op in cost.ops}
    assert dtypes["aten::addmm"][:3] == ("float32", "float32", "float32")
    assert dtypes["aten::copy_"][:2] == ("bfloat16", "float32")
    assert dtypes["aten::add"][:2] == ("int64", "int64")
    assert profile.environment.float32_matmul_precision == "high"
    # A CPU has no TF32 to allow, whatever the program says.
    assert profile.environment.matmul_tf32 is None


def test_callable_of_a_package_module_keeps_relative_imports(tmp_path: Path) -> None:
    (tmp_path / "src" / "pkg").mkdir(parents=True)
    (tmp_path / "src" / "pkg" / "__init__.py").write_text("")
    (tmp_path / "src" / "pkg" / "size.py").write_text("WIDTH = 8\n")
    text = MODEL.replace("import torch\n", "import torch\nfrom .size import WIDTH\n", 1).replace("8, 8", "WIDTH, 8")
    by_module = run(tmp_path, "pkg.model:build", text, "src/pkg/model.py")
    by_file = run(tmp_path, "src/pkg/model.py:build", text, "src/pkg/model.py")
    assert calls(by_module).keys() == calls(by_file).keys()
    assert "self.linear(x)" in calls(by_module)


def test_script_runs_as_main_until_enough_calls_were_seen(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    script = (
        "import sys, torch\nfrom model import Net\nassert sys.argv[1:] == ['--steps', '9']\n"
        "if __name__ == '__main__':\n    net = Net()\n    for _ in range(10**9):\n        net(x=torch.ones(2, 8))\n"
    )
    profile = run(tmp_path, "train.py", script, "train.py", arguments=("--steps", "9"))
    assert calls(profile)["self.linear(x)"] == 3


def test_script_is_profiled_under_the_grad_mode_it_used(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    script = "import torch\nfrom model import Net\nwith torch.inference_mode():\n    Net()(torch.ones(2, 8))\n"
    assert run(tmp_path, "serve.py", script, "serve.py").grad.inference_mode


def test_test_of_the_users_is_run_under_pytest(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    test = (
        "import pytest, torch\nfrom model import Net\n\n@pytest.fixture\ndef net():\n    return Net()\n\n"
        "def test_net(net):\n    assert net(torch.ones(2, 8)).shape == (2, 8)\n"
    )
    profile = run(tmp_path, "test_net.py::test_net", test, "test_net.py")
    assert calls(profile)["self.linear(x)"] == 3
    with pytest.raises(RunFailedError, match="pytest finds no test"):
        run(tmp_path, "test_net.py::test_other", test, "test_net.py")


def test_trace_of_a_forward_is_saved_for_other_viewers(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    run(tmp_path, "model.py:build", save_trace=str(trace))
    names = {event.get("name") for event in json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]}
    assert "aten::relu" in names


def test_compiled_code_is_a_cost_of_its_calling_line(tmp_path: Path) -> None:
    text = MODEL.replace("x = torch.relu(self.linear(x))", "x = self.fast(x)").replace(
        "    def forward",
        "        self.fast = torch.compile(self.step, backend='eager')\n\n"
        "    def step(self, x):\n        return torch.relu(self.linear(x))\n\n    def forward",
    )
    profile = run(tmp_path, "model.py:build", text)
    call = next(cost for cost in profile.lines if "Torch-Compiled Region" in " ".join(op.name for op in cost.ops))
    assert calls(profile)["self.fast(x)"] == 3
    assert call.op_calls("aten::relu") == 3
    assert not any("step" in cost.function for cost in profile.lines)


BREAKS = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def told(self, x):
        print("mean", x.shape)
        return x * 2

    def forward(self, x):
        x = self.told(self.linear(x))
        x = self.linear(x) * x.sum().item()
        return self.loop(x)

    def loop(self, x):
        for _ in range(3):
            x = self.linear(x)
            if x.sum() > 0:
                x = x + 1
        return x


def build():
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(4, 8),)


def compiled():
    model, inputs = build()
    return torch.compile(model, backend="eager"), inputs
"""


@pytest.mark.parametrize(("entry", "asked"), [("compiled", False), ("build", True)])
def test_graph_breaks_are_told_with_line_reason_and_what_is_lost(tmp_path: Path, entry: str, asked: bool) -> None:
    profile = run(tmp_path, f"model.py:{entry}", BREAKS, graph_breaks=asked)
    graphs = profile.graphs
    assert graphs is not None
    assert graphs.asked == asked
    found = {BREAKS.split("\n")[b.span.line - 1].strip(): b for b in graphs.breaks}
    assert {line: (b.function, b.frame_skipped) for line, b in found.items()} == {
        'print("mean", x.shape)': ("told", False),
        "x = self.linear(x) * x.sum().item()": ("forward", False),
        "if x.sum() > 0:": ("loop", True),
    }
    assert [next(w for w in ("print", "item", "ynamic control flow", "?") if w in b.reason) for b in found.values()]
    # The linear layer before the print, the product after it, and what follows it; nothing of the loop.
    assert graphs.count >= 3


def test_forward_that_is_not_compiled_does_not_pay_for_dynamo(tmp_path: Path) -> None:
    text = MODEL.replace(
        "        for _", "        import sys\n        assert 'torch._dynamo' not in sys.modules\n        for _"
    )
    assert run(tmp_path, "model.py:build", text).graphs is None


def test_forward_that_changes_from_run_to_run_says_so(tmp_path: Path) -> None:
    text = MODEL.replace("range(3)", "range(next(self.rounds))").replace(
        "self.linear =", "import itertools\n        self.rounds = itertools.count(1)\n        self.linear ="
    )
    profile = run(tmp_path, "model.py:build", text)
    assert "not-deterministic" in [error.kind for error in profile.errors]


@pytest.mark.parametrize("endless", ["x = x + 1.0", "x = self.many(x)"], ids=["in user code", "in library code"])
def test_forward_without_end_is_measured_in_part(tmp_path: Path, endless: str) -> None:
    text = MODEL.replace("return x + 1.0", f"while True:\n            {endless}").replace(
        "self.linear =", "self.many = nn.Sequential(*[nn.ReLU() for _ in range(50)])\n        self.linear ="
    )
    profile = run(tmp_path, "model.py:build", text, time_limit=1.0)
    assert "stopped" in [error.kind for error in profile.errors]
    costliest = max(profile.lines, key=lambda cost: cost.self_ms)
    assert profile.texts[costliest.span.file].splitlines()[costliest.span.line - 1].strip() == endless
    assert costliest.share > 0.5
    assert costliest.ops


def test_target_narrows_the_run_to_one_module(tmp_path: Path) -> None:
    text = MODEL + (
        "\n\nclass Outer(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.net = Net()\n\n"
        "    def forward(self, x):\n        return self.net(x * 2.0) - 3.0\n\n\n"
        "def outer():\n    return Outer(), (torch.randn(4, 8),)\n"
    )
    profile = run(tmp_path, "model.py:outer", text, target="Net.forward")
    assert "x + 1.0" in calls(profile)
    assert "x * 2.0" not in calls(profile)


def test_unsaved_text_runs_in_place_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    profile = run(tmp_path, "model.py:build", overlays={str(path): MODEL.replace("range(3)", "range(5)")})
    assert calls(profile)["self.linear(x)"] == 5
    assert path.read_text(encoding="utf-8") == MODEL


def test_inputs_written_in_place_stay_the_same_for_every_run(tmp_path: Path) -> None:
    loop = "        for _ in range(3):"
    text = MODEL.replace(loop, "        x.mul_(2.0)\n        assert x.max() < 100\n" + loop)
    assert calls(run(tmp_path, "model.py:build", text))["x.mul_(2.0)"] == 1


def test_user_output_and_closed_input_do_not_disturb_the_run(tmp_path: Path) -> None:
    noise = "print('hello' * 1000)\nimport sys\nassert sys.stdin.read() == ''\n\n\n"
    text = MODEL.replace("def build():", noise + "def build():")
    assert "x + 1.0" in calls(run(tmp_path, "model.py:build", text))


RAISING = MODEL.replace("return x + 1.0", "raise ValueError('no such luck')")


@pytest.mark.parametrize(
    ("entry", "text", "kind", "message", "line"),
    [
        ("missing.py:build", MODEL, "usage", "there is no file missing.py", None),
        ("model.py:biuld", MODEL, "usage", "has no `biuld`; did you mean `build`?", None),
        ("no_module:build", MODEL, "usage", "there is no module no_module", None),
        ("nonsense", MODEL, "usage", "`nonsense` is no entry", None),
        ("model.py:torch", MODEL, "usage", "is not callable", None),
        ("model.py:Net", MODEL, "entry", "missing 1 required positional argument: 'x'", None),
        ("model.py:build", MODEL + "\n\ndef broken(:\n", "entry", "SyntaxError: invalid syntax (while", 21),
        ("model.py:build", MODEL.replace("import torch", "import torhc", 1), "entry", "No module named 'torhc'", 1),
        ("model.py:build", MODEL.replace("Net().eval()", "1 / 0"), "entry", "ZeroDivisionError", 18),
        ("model.py:build", RAISING, "entry", "ValueError: no such luck", 13),
        ("model.py:build", MODEL.replace("(torch.randn(4, 8),)", "1, 2, 3"), "entry", "returned a tuple of 4", None),
        ("model.py:build", MODEL + "\n\nraise SystemExit(7)\n", "entry", "SystemExit: 7", 21),
        ("model.py:build", MODEL + "\n\ndef build(size):\n    pass\n", "usage", "needs size", None),
    ],
)
def test_failures_are_one_sentence_with_the_users_place(
    tmp_path: Path, entry: str, text: str, kind: str, message: str, line: int | None
) -> None:
    with pytest.raises(RunFailedError) as caught:
        run(tmp_path, entry, text)
    error = caught.value
    assert error.kind == kind
    assert message in error.message
    assert "\n" not in error.message
    assert error.line == line
    assert "forwardlens" not in error.trace
    assert kind != "entry" or "Error" in error.trace or "Exit" in error.trace or not error.trace


def test_traceback_shows_the_users_frames_only(tmp_path: Path) -> None:
    with pytest.raises(RunFailedError) as caught:
        run(tmp_path, "model.py:build", RAISING)
    assert caught.value.trace.startswith("Traceback (most recent call last):")
    assert 'model.py", line 13, in forward' in caught.value.trace
    assert str(Path(__file__).parents[2] / "server") not in caught.value.trace


@pytest.mark.parametrize("death", ["os._exit(3)", "os.kill(os.getpid(), 9)", "os.abort()"])
def test_death_of_the_process_is_told(tmp_path: Path, death: str) -> None:
    text = MODEL.replace("return x + 1.0", f"import os\n        {death}")
    with pytest.raises(RunFailedError, match="the run ended without an answer") as caught:
        run(tmp_path, "model.py:build", text)
    assert caught.value.kind == "crashed"


def test_interpreter_that_does_not_exist_is_an_environment_failure(tmp_path: Path) -> None:
    with pytest.raises(RunFailedError, match="cannot start the interpreter") as caught:
        run(tmp_path, "model.py:build", python=str(tmp_path / "python"))
    assert caught.value.kind == "environment"


def test_cancelling_ends_the_whole_process_tree_within_a_second(tmp_path: Path) -> None:
    text = MODEL.replace(
        "        return x + 1.0",
        "        import pathlib, subprocess, sys, time\n"
        "        child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "        pathlib.Path('child').write_text(str(child.pid))\n"
        "        while True:\n            time.sleep(0.01)",
    )
    (tmp_path / "model.py").write_text(text)
    request, cancelled = RunRequest("model.py:build", tmp_path), threading.Event()
    started = tmp_path / "child"
    watcher = threading.Thread(target=_set_when, args=(cancelled, lambda: started.exists() and started.read_text()))
    watcher.start()
    with start_worker(request, quiet, NEVER) as worker, pytest.raises(RunFailedError) as caught:
        record(worker, request, quiet, cancelled)
    asked = time.monotonic()
    watcher.join()
    worker.close()
    assert caught.value.kind == "cancelled"
    child = int(started.read_text())
    while _is_running(child) and time.monotonic() < asked + 1.0:
        time.sleep(0.01)
    assert not _is_running(child)


def _set_when(event: threading.Event, condition: Callable[[], object]) -> None:
    while not condition():
        time.sleep(0.01)
    event.set()


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Worker, RunRequest, str]]:
    folder = tmp_path_factory.mktemp("trial")
    (folder / "model.py").write_text(SLOW, encoding="utf-8")
    request = RunRequest("model.py:build", folder)
    worker = start_worker(request, quiet, NEVER)
    yield worker, request, str(folder / "model.py")
    worker.close()


SLOW = MODEL.replace("x = torch.relu(self.linear(x))", "x = torch.stack([torch.relu(self.linear(r)) for r in x])")
LOOP = "torch.stack([torch.relu(self.linear(r)) for r in x])"


@pytest.mark.parametrize(
    ("old", "new", "outcome", "message"),
    [
        (LOOP, "torch.relu(self.linear(x))", "equal", None),
        ("x + 1.0", "1.0 + x", "no-gain", None),
        ("x + 1.0", "x + 1.5", "differs", "output: values differ by up to 0.5"),
        ("x + 1.0", "x.double() + 1.0", "differs", "torch.float32 became torch.float64"),
        ("x + 1.0", "(x + 1.0)[:2]", "differs", "shape (4, 8) became (2, 8)"),
        ("x + 1.0", "(x + 1.0).detach()", "differs", "autograd"),
        ("x + 1.0", "x + 1.0 + (self.linear.bias - self.linear.bias.detach())", "differs", "gradient"),
        ("x + 1.0", "self.linear.bias.data.add_(1) * 0 + x + 1.0", "differs", "differ"),
        ("x + 1.0", "x + self.nothing", "raises", "AttributeError"),
        ("x + 1.0", "x +", "raises", "SyntaxError"),
        ("self.linear = nn.Linear(8, 8)", "self.lin = self.linear = nn.Linear(8, 8)", "differs", "other keys"),
        ("range(3):", "range(3):\n            for _ in range(9): x.sin()\n", "slower", None),
    ],
)
def test_edits_are_tried_against_the_original(
    trial: tuple[Worker, RunRequest, str], old: str, new: str, outcome: str, message: str | None
) -> None:
    worker, request, path = trial
    assert old in SLOW
    result = try_edit(
        worker, request, {path: SLOW}, {path: SLOW.replace(old, new)}, graph_may_vanish=False, cancelled=NEVER
    )
    assert result.outcome == outcome, result
    if message is not None:
        assert message in (result.message or "")
    if outcome == "equal":
        assert result.speedup is not None
        assert result.speedup > 1.5
        assert result.pairs >= 10


def test_grad_mode_fix_may_drop_the_graph(trial: tuple[Worker, RunRequest, str]) -> None:
    worker, request, path = trial
    guarded = SLOW.replace("    def forward", "    @torch.inference_mode()\n    def forward")
    assert try_edit(worker, request, {path: SLOW}, {path: guarded}, graph_may_vanish=True, cancelled=NEVER).outcome in (
        "equal",
        "no-gain",
    )


def test_a_script_starts_in_its_folder_with_its_variables_and_arguments(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    script = (
        MODEL
        + """
import os
import sys
model, inputs = build()
if (os.path.basename(os.getcwd()), os.environ["SEED"], sys.argv[1:]) == ("data", "7", ["--fast"]):
    model(*inputs)
"""
    )
    started: dict[str, Any] = {"cwd": tmp_path / "data", "environment": {"SEED": "7"}, "arguments": ("--fast",)}
    assert calls(run(tmp_path, "model.py", script, **started))["self.linear(x)"] == 3


def test_an_interpreter_that_is_no_python_is_named(tmp_path: Path) -> None:
    impostor = tmp_path / "python"
    impostor.write_text("#!/bin/sh\nexit 3\n")
    impostor.chmod(0o755)
    with pytest.raises(RunFailedError, match=r"did not start: .* choose a Python 3\.10 or later") as caught:
        run(tmp_path, "model.py:build", python=str(impostor))
    assert (caught.value.kind, str(impostor) in caught.value.message) == ("environment", True)
