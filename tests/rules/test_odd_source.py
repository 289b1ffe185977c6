"""Rules on source that nobody chose: a sample of public packages, and texts that are odd on purpose."""

from __future__ import annotations

import pytest
from tests.corpus.sources.__main__ import PACKAGES, files_of
from tests.corpus.sources.scan import scan
from tests.corpus.sources.synthetic import CIRCUMSTANCES, profile_of

from forwardlens.rules import engine
from forwardlens.source.text import SourceText

# `make corpus` looks at every file.
ONE_IN = 800

ODD = {
    "empty": "",
    "comments": "# nothing\n",
    "no-line-end": "def f(x): return x[0]",
    "form-feed": "\f\ndef f(x):\n\f    for i in range(3):\n\f        x[i] = x[i] * 2\n",
    "one-line-loop": "def f(x):\n    for i in range(9): x[i] = x[i] + 1; y = x[i].item()\n    return y\n",
    "match": "def f(x, k):\n    match k:\n        case [a, *rest] if x.sum() > 0:\n            return a(x[0])\n"
    "        case {'b': b, **others}:\n            return [b(x[i]) for i in others]\n    return x\n",
    "asynchronous": "async def f(xs):\n    async for x in xs:\n        y = await x.item()\n"
    "    return [z async for z in xs if (y := z.float()).any()]\n",
    "nested": "def f(x):\n    def g(y, *, z=lambda t: t[0].item()):\n        nonlocal x\n"
    "        x = [z(r) for r in y]\n"
    "        return x\n    class C:\n        a = [g(x[i]) for i in range(4)]\n    return C.a\n",
    "starred": "def f(*xs, **ks):\n    for i, (a, *b) in enumerate(zip(*xs)):\n"
    "        ks[i] = a.to(*b, **ks)\n    return torch.cat([*xs, *ks.values()])\n",
    "many-targets": "def f(x):\n    a = b[0], (c, *d) = x[0], x[1:]\n    a += x.cumsum(0)[..., None, ::2]\n"
    "    return a\n",
    "global": "def f(x):\n    global y\n    while (y := x.mean()) > 0:\n        x = torch.cat([x, y[None]])\n"
    "    del y\n",
    "strings": "def f(x):\n    return f'{x[0].item()!r:>{int(x[1])}} {[f\"{r}\" for r in x]}'\n",
    "outside-functions": "y = torch.cat([x[i].repeat(4, 1).contiguous() for i in range(8)])\n",
    "not-ascii": "def f(\N{GREEK SMALL LETTER SIGMA}):\n"
    "    '\N{SPARKLES}'; return \N{GREEK SMALL LETTER SIGMA}[0].item()\n",
    "windows": "def f(x):\r\n\tfor i in range(8):\r\n\t\tx[i] = x[i].masked_fill(x[i] > 0, 0)\r\n\treturn x\r\n",
    "long-sum": f"def f(x):\n    return {' + '.join(f'x[{n}]' for n in range(400))}\n",
    "deep": f"def f(x):\n    return {'(' * 60}x{')[0]' * 60}\n",
    "calls-in-a-ring": "".join(
        f"def {one}(x):\n" + "    x = x.relu() + x.exp()\n" * 200 + f"    return {other}(x)\n\n\n"
        for one, other in ("fg", "gf")
    ),
    "does-not-parse": "def f(x:\n",
}


@pytest.mark.models
def test_no_rule_raises_or_breaks_a_file_on_public_source() -> None:
    pytest.importorskip("transformers")
    found = [scan(file, kind) for kind, file in enumerate(list(files_of(PACKAGES))[::ONE_IN])]
    assert sum(one is not None for one in found) > 4
    assert [problem for one in found if one is not None for problem in one.problems] == []


@pytest.mark.parametrize("name", ODD)
def test_no_rule_raises_on_odd_source(name: str) -> None:
    source = SourceText(f"/w/{name}.py", ODD[name])
    for kind, circumstances in enumerate(CIRCUMSTANCES):
        profile = profile_of(source, circumstances, kind)
        assert engine.find(profile, {source.path: source}, 0.02, {})[1] == ()
