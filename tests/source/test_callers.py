"""What in a folder reaches a class, found without importing anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from forwardlens.source import callers
from forwardlens.source.callers import OutlineCache, find_callers

NET = """\
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x
"""


def found(folder: Path, files: dict[str, str], *, model: str = "model.py", unsaved: str | None = None) -> list[str]:
    """Kind, place and name of what reaches `Net` of the file `model`."""
    for name, text in {model: NET, **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    texts = {} if unsaved is None else {str(folder / next(iter(files))): unsaved}
    result = find_callers(folder, str(folder / model), ["Net"], OutlineCache(), texts)
    return [f"{c.kind} {Path(c.path).relative_to(folder).as_posix()} {c.name}" for c in result.found]


@pytest.mark.parametrize(
    "text",
    [
        "from model import Net\nNet()(1)\n",
        "from model import Net as N\nN()(1)\n",
        "import model\nmodel.Net()(1)\n",
        "import model as m\nm.Net()(1)\n",
        "from model import *\nNet()(1)\n",
        "from model import Net\ndef main():\n    Net()\nif __name__ == '__main__':\n    main()\n",
        "from model import Net\nclass Big(Net): ...\nfor _ in range(3):\n    Big()(1)\n",
        "from a import group\nfrom model import Net\n@group()\ndef c(): ...\n@c.command()\ndef go(): Net()\nc()\n",
    ],
)
def test_a_script_that_uses_the_class_is_found(tmp_path: Path, text: str) -> None:
    assert found(tmp_path, {"train.py": text}) == ["script train.py __main__"]


@pytest.mark.parametrize(
    "text",
    [
        "from model import Net\ndef train():\n    Net()\n",
        "from other import Net\nNet()(1)\n",
        "class Net: ...\nNet()\n",
        "import model\nmodel.Other()\n",
        "from model import Net\nprint('no use of it')\n",
        "Net(\n",
    ],
)
def test_nothing_else_is(tmp_path: Path, text: str) -> None:
    assert found(tmp_path, {"train.py": text}) == []


def test_it_is_followed_through_packages_factories_and_re_exports(tmp_path: Path) -> None:
    files = {
        "src/pkg/__init__.py": "from .nets import Net\n",
        "src/pkg/factory.py": "from . import Net\n\ndef make():\n    return Net()\n",
        "scripts/run.py": "from pkg.factory import make\nmake()(1)\n",
    }
    assert found(tmp_path, files, model="src/pkg/nets.py") == ["script scripts/run.py __main__"]


def test_tests_are_found_with_their_fixtures(tmp_path: Path) -> None:
    files = {
        "conftest.py": "import pytest\nfrom model import Net\n\n@pytest.fixture\ndef net():\n    return Net()\n",
        "tests/test_net.py": (
            "from model import Net\n"
            "def test_direct():\n    Net()\n"
            "def test_by_fixture(net):\n    net(1)\n"
            "def test_other(tmp_path): ...\n"
            "class TestNet:\n"
            "    def setup_method(self):\n        self.net = Net()\n"
            "    def test_method(self):\n        self.net(1)\n"
        ),
    }
    assert found(tmp_path, files) == [
        "test tests/test_net.py test_direct",
        "test tests/test_net.py TestNet::test_method",
        "test tests/test_net.py test_by_fixture",
    ]


def test_functions_that_build_the_model_come_with_their_distance(tmp_path: Path) -> None:
    files = {
        "bench.py": "from model import Net\ndef build():\n    return Net(), (1,)\n",
        "far.py": "from bench import build\nif __name__ == '__main__':\n    build()\n",
    }
    assert found(tmp_path, files) == ["entry bench.py build", "script far.py __main__"]


def test_unsaved_text_counts(tmp_path: Path) -> None:
    text = "from model import Net\nNet()\n"
    assert found(tmp_path, {"train.py": "print(1)\n"}, unsaved=text) == ["script train.py __main__"]


def test_imports_in_a_circle_end(tmp_path: Path) -> None:
    files = {
        "a.py": "from b import *\n",
        "b.py": "from a import *\n",
        "run.py": "from a import Net\nNet()\n",
    }
    assert found(tmp_path, files) == []


def test_environments_and_hidden_folders_are_left_out(tmp_path: Path) -> None:
    text = "from model import Net\nNet()\n"
    files = {".hidden/a.py": text, "env/lib/b.py": text, "node_modules/c.py": text, "kept/model_run.py": text}
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "pyvenv.cfg").touch()
    assert found(tmp_path, files) == ["script kept/model_run.py __main__"]


def test_a_bound_gives_a_partial_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.py").write_text(NET)
    (tmp_path / "train.py").write_text("from model import Net\nNet()\n")
    monkeypatch.setattr(callers, "LONGEST_SEARCH_S", 0.0)
    answer = find_callers(tmp_path, str(tmp_path / "model.py"), ["Net"], OutlineCache(), {})
    assert (answer.found, answer.complete) == ((), False)
