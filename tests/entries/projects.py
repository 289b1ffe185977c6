"""Small projects laid out the way public ones are, each with what must come of profiling it.

Each one says which of its expressions must be among the costs, or what must be said where it cannot be run as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Project:
    """`cost` is an expression that must have run; `refusal` is part of the message that must come instead."""

    entry: str
    files: Mapping[str, str]
    cost: str | None = "self.fc(x)"
    refusal: str | None = None
    target: str | None = None
    arguments: tuple[str, ...] = ()
    notes: frozenset[str] = field(default_factory=frozenset[str])


NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.fc = nn.Linear(8, width)

    def forward(self, x):
        return torch.relu(self.fc(x))
"""

TRAIN = """
import torch
from {net} import Net


def main(steps=100):
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(steps):
        loss = net(torch.ones(2, 8)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
"""

BUILD = """

def build():
    return Net(), (torch.ones(2, 8),)
"""

PROJECTS: dict[str, Project] = {
    "flat": Project("train.py", {"net.py": NET, "train.py": TRAIN.format(net="net")}),
    "src layout": Project(
        "src/acme/model.py:build",
        {
            "src/acme/__init__.py": "",
            "src/acme/net.py": NET,
            "src/acme/model.py": "import torch\nfrom .net import Net\n" + BUILD,
        },
    ),
    "src layout, script outside, not installed": Project(
        "scripts/train.py",
        {"src/acme/__init__.py": "", "src/acme/net.py": NET, "scripts/train.py": TRAIN.format(net="acme.net")},
    ),
    "namespace package": Project(
        "src/acme/models/entry.py:build",
        {
            "src/acme/models/net.py": NET,
            "src/acme/models/entry.py": "import torch\nfrom acme.models.net import Net\n" + BUILD,
        },
    ),
    "namespace package, relative imports": Project(
        "acme/models/entry.py:build",
        {
            "acme/layers/net.py": NET,
            "acme/models/entry.py": "import torch\nfrom ..layers.net import Net\n" + BUILD,
        },
    ),
    "dotted module": Project(
        "acme.net:build", {"acme/__init__.py": "from .net import Net\n", "acme/net.py": NET + BUILD}
    ),
    "python -m, a module": Project(
        "-m acme.train",
        {"acme/__init__.py": "", "acme/net.py": NET, "acme/train.py": TRAIN.format(net=".net")},
    ),
    "python -m, a package": Project(
        "-m acme",
        {
            "src/acme/__init__.py": "",
            "src/acme/net.py": NET,
            "src/acme/__main__.py": "import sys\nassert sys.argv[1:] == ['--fast']\n" + TRAIN.format(net="acme.net"),
        },
        arguments=("--fast",),
    ),
    "python -m, no such module": Project(
        "-m acme.tarin", {"acme/__init__.py": ""}, None, "there is no module acme.tarin to run from"
    ),
    "script in a package with relative imports": Project(
        "acme/train.py",
        {"acme/__init__.py": "", "acme/net.py": NET, "acme/train.py": TRAIN.format(net=".net")},
    ),
    "hydra, not installed": Project(
        "train.py",
        {"train.py": "import hydra\n\n\n@hydra.main(config_path='conf')\ndef main(cfg):\n    pass\n\n\nmain()\n"},
        None,
        "No module named 'hydra'",
    ),
    "decorated main with composed configuration": Project(
        "train.py",
        {
            "conf/config.json": '{"model": {"width": 8}, "steps": 50}',
            "composer.py": """
import functools, json, pathlib, sys


def main(config_path):
    def decorate(task):
        @functools.wraps(task)
        def run():
            folder = pathlib.Path(task.__code__.co_filename).parent / config_path
            config = json.loads((folder / "config.json").read_text())
            for override in sys.argv[1:]:
                name, value = override.split("=")
                config[name] = int(value)
            try:
                return task(config)
            except Exception as error:
                sys.exit(1)
        return run
    return decorate
""",
            "train.py": NET
            + """
import composer


@composer.main(config_path="conf")
def main(cfg):
    assert cfg["steps"] == 9
    net = Net(cfg["model"]["width"])
    for _ in range(cfg["steps"]):
        net(torch.ones(2, 8))


if __name__ == "__main__":
    main()
""",
        },
        arguments=("steps=9",),
    ),
    "argparse": Project(
        "train.py",
        {
            "train.py": NET
            + """
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, required=True)
parser.add_argument("rest", nargs="*")
args = parser.parse_args()
assert args.rest == ["a b"]
Net(args.width)(torch.ones(2, 8))
"""
        },
        arguments=("--width", "8", "a b"),
    ),
    "argparse, required argument missing": Project(
        "train.py",
        {
            "train.py": "import argparse\nparser = argparse.ArgumentParser()\n"
            "parser.add_argument('--data', required=True)\nparser.parse_args()\n"
        },
        None,
        "train.py exited with 2 without calling a torch.nn.Module",
    ),
    "click": Project(
        "cli.py",
        {
            "cli.py": NET
            + """
import click


@click.group()
def cli():
    pass


@cli.command()
@click.option("--steps", default=1)
def train(steps):
    net = Net()
    for _ in range(steps):
        net(torch.ones(2, 8))


if __name__ == "__main__":
    cli()
"""
        },
        arguments=("train", "--steps", "7"),
    ),
    "exported from a notebook": Project(
        "notebook.py",
        {"notebook.py": "# In[1]:\nget_ipython().run_line_magic('matplotlib', 'inline')\n# In[2]:\n" + NET},
        None,
        "delete its magic commands, or give a function of it as notebook.py:function",
    ),
    "notebook cells without magic": Project(
        "notebook.py",
        {
            "notebook.py": "#!/usr/bin/env python\n# coding: utf-8\n# In[1]:\n"
            + NET
            + "# In[2]:\nNet()(torch.ones(2, 8))"
        },
    ),
    "trainer class with hooks": Project(
        "main.py",
        {
            "trainer.py": """
import torch


class LightModule(torch.nn.Module):
    def fit(self, batches):
        optimizer = self.configure_optimizers()
        self.train()
        for index, batch in enumerate(batches):
            loss = self.training_step(batch, index)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
""",
            "main.py": NET.replace("import torch", "import torch\nfrom trainer import LightModule", 1)
            + """

class Task(LightModule):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def training_step(self, batch, index):
        return self.net(batch).mean() * 2.0

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


Task().fit([torch.ones(2, 8)] * 20)
""",
        },
        cost="self.net(batch).mean()",
        target="Task.training_step",
    ),
    "trainer with dict batches and model output": Project(
        "finetune.py",
        {
            "finetune.py": NET
            + """
import collections
import dataclasses


@dataclasses.dataclass
class Output(collections.OrderedDict):
    loss: torch.Tensor = None
    logits: torch.Tensor = None

    def __post_init__(self):
        self.update(loss=self.loss, logits=self.logits)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def forward(self, input_values=None, labels=None):
        logits = self.net(input_values)
        return Output(loss=nn.functional.cross_entropy(logits, labels), logits=logits)


class Trainer:
    def __init__(self, model, data):
        self.model, self.data = model, data

    def compute_loss(self, model, inputs):
        outputs = model(**inputs)
        return outputs["loss"]

    def train(self):
        optimizer = torch.optim.AdamW(self.model.parameters())
        for epoch in range(3):
            for inputs in self.data:
                loss = self.compute_loss(self.model, inputs)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()


data = [{"input_values": torch.ones(2, 8), "labels": torch.tensor([1, 0])} for _ in range(8)]
Trainer(Classifier(), data).train()
"""
        },
        cost="nn.functional.cross_entropy(logits, labels)",
    ),
    "distributed, guarded": Project(
        "train.py",
        {
            "train.py": NET
            + """
import os
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    net = Net()
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        dist.init_process_group("gloo")
        net = DistributedDataParallel(net)
    for _ in range(10):
        net(torch.ones(2, 8))
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
"""
        },
    ),
    "configuration in YAML": Project(
        "train.py",
        {
            "configs/base.yaml": "model:\n  width: 8\n",
            "train.py": NET
            + """
import pathlib

text = pathlib.Path("configs/base.yaml").read_text()
width = int(text.rpartition(":")[2])
Net(width)(torch.ones(2, 8))
""",
        },
    ),
    "pytest, fixtures in conftest and parametrize": Project(
        "tests/test_net.py::test_shape[4]",
        {
            "net.py": NET,
            "tests/conftest.py": "import pytest\nfrom net import Net\n\n\n@pytest.fixture\n"
            "def net():\n    return Net()\n",
            "tests/test_net.py": "import pytest\nimport torch\n\n\n@pytest.mark.parametrize('n', [2, 4])\n"
            "def test_shape(net, n):\n    assert net(torch.ones(n, 8)).shape == (n, 8)\n",
        },
    ),
    "pytest, class and conftest in a package": Project(
        "acme/tests/test_net.py::TestNet::test_shape",
        {
            "acme/__init__.py": "",
            "acme/net.py": NET,
            "acme/tests/__init__.py": "",
            "acme/tests/conftest.py": "import pytest\n\n\n@pytest.fixture(scope='session')\n"
            "def width():\n    return 8\n",
            "acme/tests/test_net.py": "import torch\nfrom ..net import Net\n\n\nclass TestNet:\n"
            "    def test_shape(self, width):\n        net = Net(width)\n        for _ in range(100):\n"
            "            net(torch.ones(2, 8))\n",
        },
    ),
    "unittest": Project(
        "test_net.py::NetTest::test_shape",
        {
            "test_net.py": NET + "\nimport unittest\n\n\nclass NetTest(unittest.TestCase):\n    def setUp(self):\n"
            "        self.net = Net()\n\n    def test_shape(self):\n        for _ in range(9):\n"
            "            self.assertEqual(self.net(torch.ones(2, 8)).shape, (2, 8))\n"
        },
    ),
    "pytest, no such test": Project(
        "test_net.py::test_shpae",
        {"test_net.py": "def test_shape():\n    pass\n"},
        None,
        "pytest finds no test test_net.py::test_shpae; did you mean `test_shape`?",
    ),
    "examples in docstrings": Project(
        "net.py",
        {
            "net.py": NET.replace(
                "class Net(nn.Module):\n",
                "class Net(nn.Module):\n    '''\n    >>> tuple(Net()(torch.ones(2, 8)).shape)\n    (2, 8)\n    '''\n\n",
            )
            + "\nif __name__ == '__main__':\n    import doctest\n    doctest.testmod()\n"
        },
    ),
    "package with data files": Project(
        "acme.entry:build",
        {
            "acme/__init__.py": "",
            "acme/vocab.txt": "a\nb\nc\n",
            "acme/net.py": NET,
            "acme/entry.py": "import importlib.resources\nimport torch\nfrom .net import Net\n\n"
            "WORDS = importlib.resources.files(__package__).joinpath('vocab.txt').read_text().split()\n"
            + BUILD.replace("ones(2", "ones(len(WORDS)"),
        },
    ),
    "lazy imports": Project(
        "acme.entry:build",
        {
            "acme/__init__.py": "def __getattr__(name):\n    from .net import Net\n    return Net\n",
            "acme/tools.py": "def scale(x):\n    return x * 3.0\n",
            "acme/net.py": NET.replace(
                "        return torch", "        from .tools import scale\n        x = scale(x)\n        return torch"
            ),
            "acme/entry.py": "import torch\nfrom acme import Net\n" + BUILD,
        },
        cost="x * 3.0",
    ),
    "factory and registry": Project(
        "zoo.py:build",
        {
            "registry.py": "MODELS = {}\n\n\ndef register(cls):\n    MODELS[cls.__name__.lower()] = cls\n"
            "    return cls\n",
            "zoo.py": NET.replace("class Net", "@register\nclass Net").replace(
                "import torch", "import torch\nfrom registry import MODELS, register", 1
            )
            + BUILD.replace("Net()", "MODELS['net'](width=8)"),
        },
    ),
    "sequential only": Project(
        "model.py:build",
        {
            "model.py": "import torch\nfrom torch import nn\n\n\ndef build():\n"
            "    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU())\n\n    def step():\n"
            "        return model(torch.ones(2, 8))\n\n    return step\n"
        },
        cost="model(torch.ones(2, 8))",
    ),
    "sequential only, nothing of the user's runs": Project(
        "model.py:build",
        {
            "model.py": "import torch\nfrom torch import nn\n\n\ndef build():\n"
            "    return nn.Sequential(nn.Linear(8, 8)), (torch.ones(2, 8),)\n"
        },
        cost=None,
        notes=frozenset({"no-user-code"}),
    ),
    "functions without a module": Project(
        "attention.py",
        {
            "attention.py": "import torch\n\n\ndef attention(q, k, *, scale=1.0):\n    scores = q @ k.T * scale\n"
            "    return torch.softmax(scores, -1)\n\n\nfor _ in range(50):\n"
            "    attention(torch.ones(4, 8), torch.ones(4, 8), scale=0.5)\n"
        },
        None,
        "--target file.py:line",
    ),
    "functions without a module, by line": Project(
        "attention.py",
        {
            "attention.py": "import torch\n\n\ndef attention(q, k, *, scale=1.0):\n    scores = q @ k.T * scale\n"
            "    return torch.softmax(scores, -1)\n\n\nfor _ in range(50):\n"
            "    attention(torch.ones(4, 8), torch.ones(4, 8), scale=0.5)\n"
        },
        "q @ k.T * scale",
        target="attention.py:4",
    ),
    "several models, one by variable": Project(
        "gan.py",
        {
            "gan.py": NET
            + """

class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 1)

    def forward(self, x):
        return self.fc(x * 2.0)


generator, critic = Net(), Critic()
for _ in range(20):
    for _ in range(3):
        critic(generator(torch.randn(2, 8)).detach()).mean().backward()
    (-critic(generator(torch.randn(2, 8))).mean()).backward()
"""
        },
        cost="x * 2.0",
        target="critic",
    ),
    "data loader with workers over a generator": Project(
        "train.py",
        {
            "train.py": NET
            + """
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __iter__(self):
        for i in range(64):
            yield torch.full((8,), float(i))


if __name__ == "__main__":
    net = Net()
    for batch in DataLoader(Stream(), batch_size=4, num_workers=1):
        net(batch)
"""
        },
    ),
    "compiled": Project(
        "model.py:build",
        {"model.py": NET + BUILD.replace("Net()", "torch.compile(Net(), backend='eager')")},
        cost=None,
        notes=frozenset({"no-user-code"}),
    ),
    "compiled, called by a step": Project(
        "model.py:build",
        {
            "model.py": NET + "\n\ndef build():\n    net = torch.compile(Net(), backend='eager')\n\n    def step():\n"
            "        return net(torch.ones(2, 8)) + 1.0\n\n    return step\n"
        },
        cost="net(torch.ones(2, 8))",
    ),
    "compiled in a script": Project(
        "train.py",
        {
            "train.py": NET
            + "\n\nnet = torch.compile(Net(), backend='eager')\nfor _ in range(20):\n    net(torch.ones(2, 8))\n"
        },
        cost=None,
        notes=frozenset({"no-user-code"}),
    ),
    "scripted": Project(
        "model.py",
        {"model.py": NET + "\nnet = torch.jit.script(Net())\nwith torch.no_grad():\n    net(torch.ones(2, 8))\n"},
        cost=None,
        notes=frozenset({"no-user-code"}),
    ),
    "async": Project(
        "serve.py",
        {
            "serve.py": NET
            + """
import asyncio

net = Net()


async def answer(request):
    await asyncio.sleep(0)
    with torch.inference_mode():
        return net(request)


async def main():
    while True:
        await asyncio.gather(*(answer(torch.ones(2, 8)) for _ in range(2)))


asyncio.run(main())
"""
        },
    ),
    "multiprocessing guard": Project(
        "train.py",
        {
            "train.py": NET
            + """
import multiprocessing

if __name__ == "__main__":
    multiprocessing.freeze_support()
    multiprocessing.set_start_method("spawn", force=True)
    Net()(torch.ones(2, 8))
"""
        },
    ),
    "calls sys.exit": Project(
        "run.py",
        {
            "run.py": NET
            + "\nimport sys\n\n\ndef main():\n    Net()(torch.ones(2, 8))\n    return 3\n\n\nsys.exit(main())\n"
        },
    ),
    "changes argv and the folder": Project(
        "run.py",
        {
            "weights/scale.txt": "2",
            "run.py": NET.replace(
                "        return torch", "        x = x * float(open('scale.txt').read())\n        return torch"
            )
            + "\nimport os, sys\nsys.argv = ['other', '--flag']\nos.chdir('weights')\nNet()(torch.ones(2, 8))\n",
        },
        cost="x * float(open('scale.txt').read())",
    ),
    "no forward at all": Project(
        "prepare.py", {"prepare.py": "print('nothing to see')\n"}, None, "prepare.py ran to its end without calling"
    ),
    "generator as input": Project(
        "train.py",
        {
            "train.py": NET.replace("return torch.relu(self.fc(x))", "return sum(self.fc(part) for part in x)")
            + "\nnet = Net()\nfor _ in range(30):\n    net(torch.ones(2, 8) * i for i in range(3))\n"
        },
        cost="self.fc(part)",
        notes=frozenset({"in-place"}),
    ),
}
