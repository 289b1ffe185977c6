"""Running a program of the user's: which forward is taken, how the program ends, and what it leaves behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.entries.harness import Bench, calls, notes, write

from forwardlens.runner.request import RunFailedError

pytestmark = pytest.mark.torch

NET = """\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x):
        return torch.relu(self.fc(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Block() for _ in range(3)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x * 2.0

    def generate(self, x):
        for _ in range(2):
            x = self(x)
        return x - 1.0
"""
LINES = {text.strip(): number for number, text in enumerate(NET.splitlines(), 1)}
TRAIN = """\
import atexit
import contextlib
import pathlib
import torch
from net import Net


def note(what):
    with open("notes.txt", "a") as file:
        file.write(what + "\\n")


@contextlib.contextmanager
def session():
    try:
        yield
    finally:
        note("left the session")


def batches():
    for number in range(1000):
        note(f"batch {number}")
        yield torch.full((2, 8), float(number))


def main():
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    atexit.register(note, "exit handler")
    with session():
        try:
            for batch in batches():
                loss = model(batch).sum()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        except Exception:
            note("an error was handled")
        finally:
            steps = {int(state["step"]) for state in optimizer.state.values()}
            note(f"stopped after {steps}")


if __name__ == "__main__":
    main()
"""
CALL = next(number for number, text in enumerate(TRAIN.splitlines(), 1) if "model(batch)" in text)


def test_training_is_ended_politely_with_its_batches_and_its_optimizer_as_they_were(
    tmp_path: Path, bench: Bench
) -> None:
    profile = bench.profile(tmp_path, {"net.py": NET, "train.py": TRAIN}, "train.py")
    assert calls(profile)["self.fc(x)"] == 3
    assert (tmp_path / "notes.txt").read_text().splitlines() == [
        *(f"batch {number}" for number in range(4)),
        "stopped after {3}",
        "left the session",
        "exit handler",
    ]


@pytest.mark.parametrize(
    ("target", "ran", "did_not_run"),
    [
        (None, "layer(x)", "x - 1.0"),
        ("Block", "self.fc(x)", "layer(x)"),
        ("Block.forward", "self.fc(x)", "layer(x)"),
        ("model.layers.1", "self.fc(x)", "layer(x)"),
        ("layers.1", "self.fc(x)", "layer(x)"),
        ("model", "layer(x)", "x - 1.0"),
        (f"net.py:{LINES['return torch.relu(self.fc(x))']}", "self.fc(x)", "layer(x)"),
        (f"train.py:{CALL}", "layer(x)", "x - 1.0"),
    ],
)
def test_target_is_found_by_class_path_or_line(
    tmp_path: Path, bench: Bench, target: str | None, ran: str, did_not_run: str
) -> None:
    found = calls(bench.profile(tmp_path, {"net.py": NET, "train.py": TRAIN}, "train.py", target=target))
    assert ran in found
    assert did_not_run not in found


def test_target_may_be_a_method_that_calls_the_forward(tmp_path: Path, bench: Bench) -> None:
    files = {"net.py": NET, "use.py": "import torch\nfrom net import Net\nNet().generate(torch.ones(2, 8))\n"}
    found = calls(bench.profile(tmp_path, files, "use.py", target="Net.generate"))
    assert (found["self(x)"], found["x - 1.0"], found["layer(x)"]) == (2, 1, 6)


def test_target_inside_a_compiled_model_is_found(tmp_path: Path, bench: Bench) -> None:
    build = "def build():\n    return torch.compile(Net(), backend='eager'), (torch.ones(2, 8),)\n"
    found = calls(bench.profile(tmp_path, {"net.py": f"{NET}\n\n{build}"}, "net.py:build", target="layers.2"))
    assert found["self.fc(x)"] == 1
    assert "layer(x)" not in found


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("Blok", "`Blok` is never called by train.py; did you mean `Block`?"),
        ("model.layers.7", "`model.layers.7` is never called by train.py; it calls Block, Linear, Net"),
        ("nothing.py:3", "the target nothing.py:3 names no file of the workspace"),
        ("net.py:3", "the target net.py:3 holds no code"),
        (
            "not a target",
            "`not a target` is no target; write Class, Class.method, model.path.to.module or file.py:line",
        ),
    ],
)
def test_target_that_is_not_there_is_told_with_what_is(tmp_path: Path, bench: Bench, target: str, message: str) -> None:
    with pytest.raises(RunFailedError) as caught:
        bench.profile(tmp_path, {"net.py": NET, "train.py": TRAIN.replace("1000", "6")}, "train.py", target=target)
    assert caught.value.kind == "usage"
    assert message in caught.value.message


def test_forward_is_measured_in_the_surroundings_of_its_call(tmp_path: Path, bench: Bench) -> None:
    script = (
        "import torch\nfrom net import Net\nnet = Net()\n"
        "with torch.no_grad(), torch.autocast('cpu', torch.bfloat16):\n    net(torch.ones(2, 8))\n"
    )
    text = NET.replace("return x * 2.0", "assert x.dtype is torch.bfloat16\n        return x * 2.0")
    profile = bench.profile(tmp_path, {"net.py": text, "serve.py": script}, "serve.py")
    assert not profile.grad.grad_enabled


def test_forward_that_needs_its_state_is_measured_in_the_program(tmp_path: Path, bench: Bench) -> None:
    text = NET.replace("return x * 2.0", "self.seen = getattr(self, 'seen', 0) + 1\n        return x * self.seen")
    script = "import torch\nfrom net import Net\nnet = Net()\nfor _ in range(30):\n    net(torch.ones(2, 8))\n"
    profile = bench.profile(tmp_path, {"net.py": text, "run.py": script}, "run.py")
    assert "output 0 has other values in a replay" in notes(profile)["in-place"]
    assert calls(profile)["x * self.seen"] == 1
    with pytest.raises(RunFailedError, match=r"cannot be repeated: .*; and it is called fewer than 4 times"):
        bench.profile(tmp_path, {"run.py": script.replace("30", "3")}, "run.py")


def test_forward_that_needs_what_the_program_has_closed_is_measured_in_the_program(
    tmp_path: Path, bench: Bench
) -> None:
    text = NET.replace("return x * 2.0", "return x * len(self.file.read(1))")
    script = (
        "import torch\nfrom net import Net\nnet = Net()\nwith open(__file__) as net.file:\n"
        "    for _ in range(30):\n        net(torch.ones(2, 8))\n"
    )
    profile = bench.profile(tmp_path, {"net.py": text, "run.py": script}, "run.py")
    assert "repeating the call raises ValueError" in notes(profile)["in-place"]
    assert "x * len(self.file.read(1))" in calls(profile)


def test_error_of_a_test_is_the_users_own(tmp_path: Path, bench: Bench) -> None:
    with pytest.raises(RunFailedError) as caught:
        bench.profile(tmp_path, {"test_it.py": "def test_it():\n    assert 1 + 1 == 3\n"}, "test_it.py::test_it")
    assert caught.value.message.startswith("test_it.py:2: AssertionError")
    with pytest.raises(RunFailedError) as caught:
        bench.profile(tmp_path, {"test_it.py": "import nothing_of_that_name\n"}, "test_it.py::test_it")
    assert "No module named 'nothing_of_that_name'" in caught.value.message
    assert caught.value.line == 1


@pytest.mark.parametrize(
    ("entry", "edited", "files"),
    [
        ("run.py", "run.py", {"run.py": f"{NET}\n\nNet()(torch.ones(2, 8))\n"}),
        (
            "-m acme.run",
            "acme/__init__.py",
            {"acme/__init__.py": NET, "acme/run.py": "import torch\nfrom . import Net\nNet()(torch.ones(2, 8))\n"},
        ),
        (
            "acme.run:build",
            "acme/net.py",
            {
                "acme/net.py": NET,
                "acme/run.py": "import torch\nfrom .net import Net\n\n\ndef build():\n"
                "    return Net(), (torch.ones(2, 8),)\n",
            },
        ),
        (
            "test_net.py::test_net",
            "test_net.py",
            {"test_net.py": f"{NET}\n\ndef test_net():\n    assert Net()(torch.ones(2, 8)).shape == (2, 8)\n"},
        ),
        (
            "tests/test_net.py::test_net",
            "tests/conftest.py",
            {
                "tests/conftest.py": f"{NET}\n\nimport pytest\n\n\n@pytest.fixture\ndef net():\n    return Net()\n",
                "tests/test_net.py": "import torch\n\n\ndef test_net(net):\n"
                "    assert net(torch.ones(2, 8)) is not None\n",
            },
        ),
    ],
)
def test_unsaved_text_is_what_runs(
    tmp_path: Path, bench: Bench, entry: str, edited: str, files: dict[str, str]
) -> None:
    write(tmp_path, files)
    unsaved = files[edited].replace("range(3)", "range(5)")
    profile = bench.profile(tmp_path, files, entry, overlays={str(tmp_path / edited): unsaved})
    assert calls(profile)["self.fc(x)"] == 5
    assert (tmp_path / edited).read_text() == files[edited]


FINDER = """\
import importlib.util
import pathlib
import sys
import torch


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        file = pathlib.Path(__file__).parent / "elsewhere" / "net.py"
        return importlib.util.spec_from_file_location(name, file) if name == "far_away" else None


sys.meta_path.append(Finder)
from far_away import Net
Net()(torch.ones(2, 8))
"""


def test_unsaved_text_runs_where_a_finder_of_its_own_finds_the_project(tmp_path: Path, bench: Bench) -> None:
    """As it does where a project is installed for editing."""
    files = {"elsewhere/net.py": NET, "run.py": FINDER}
    overlays = {str(tmp_path / "elsewhere" / "net.py"): NET.replace("range(3)", "range(5)")}
    assert calls(bench.profile(tmp_path, files, "run.py", overlays=overlays))["self.fc(x)"] == 5


TAGGER = """\
import dataclasses
import torch
from torch import nn


@dataclasses.dataclass
class Batch:
    ids: torch.Tensor


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.word = nn.Embedding(100, 16)

    def forward(self, batch):
        assert isinstance(batch, Batch)
        ids = batch.ids
        return torch.stack([self.word(ids[:, t]) for t in range(ids.shape[1])], dim=1)


if __name__ == "__main__":
    torch.set_num_threads(1)
    net = Tagger()
    for _ in range(100):
        net(Batch(torch.randint(0, 100, (4, 64))))
"""


@pytest.mark.parametrize("entry", ["tagger.py", "use.py", "test_use.py::test_use"])
def test_edit_of_a_program_is_tried_on_the_inputs_it_gives(tmp_path: Path, bench: Bench, entry: str) -> None:
    """The edited program is another run, whose classes are others with the same names."""
    use = ["from tagger import Batch, Tagger", "import torch", "Tagger()(Batch(torch.ones(4, 64).long()))"]
    test = "def test_use():\n" + "".join(f"    {line}\n" for line in use)
    write(tmp_path, {"use.py": "\n".join(use), "test_use.py": test})
    loop = "torch.stack([self.word(ids[:, t]) for t in range(ids.shape[1])], dim=1)"
    tried = bench.try_edit(
        tmp_path, {"tagger.py": TAGGER}, entry, {"tagger.py": TAGGER.replace(loop, "self.word(ids)")}
    )
    assert tried.outcome == "equal", tried
    tried = bench.try_edit(tmp_path, {}, entry, {"tagger.py": TAGGER.replace(loop, "self.word(ids) + 1")})
    assert tried.outcome == "differs", tried
