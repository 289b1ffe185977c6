# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""What a worker process remembers between requests: which user code it has loaded."""

from __future__ import annotations

import os
import sys

import torch

from . import entries
from .case import Case, select_target
from .channel import Channel
from .failures import Failure
from .measure import choose_device, measure
from .modules import forget_user_modules
from .overlay import Overlay
from .usercode import UserCode, missing_packages
from .verify import verify

SEED = 0


class Session:
    """`doing` completes "... while" in messages about the user's exceptions."""

    def __init__(self, channel: Channel, folder: str) -> None:
        self._channel, self._folder = channel, folder
        self._path = list(sys.path)
        self.doing = "starting"

    def user_code(self, request: dict) -> UserCode:
        roots = [request["workspace"]]
        entry = request["entry"].partition("::")[0]
        place = entry if entry.endswith(".py") else entry.rpartition(":")[0]
        path = os.path.join(request["workspace"], place)
        if os.path.isfile(path):
            roots.append(os.path.dirname(os.path.abspath(path)))
        return UserCode(roots, request.get("include", []))

    def handle(self, request: dict) -> dict:
        if request["op"] == "profile":
            return self._profile(request)
        return self._verify(request)

    def _profile(self, request: dict) -> dict:
        is_user = self.user_code(request)
        unknown = missing_packages(request.get("include", []))
        if unknown:
            raise Failure("usage", f"--include {unknown[0]}: {sys.executable} has no package of that name")
        overlay = Overlay(request.get("overlays", {}))
        self._channel.progress("load", f"Loading {request['entry']}")
        case = self._load(request, overlay, is_user)
        self.doing = f"running {case.described}"
        return measure(case, request, is_user, overlay, self._channel)

    def _verify(self, request: dict) -> dict:
        is_user = self.user_code(request)
        before = self._load(request, Overlay(request["before"]), is_user)
        device = choose_device(before, request.get("device"))
        load_after = lambda: self._load(request, Overlay(request["after"]), is_user).to(device)  # noqa: E731
        return verify(before.to(device), load_after, device, graph_may_vanish=request["graph_may_vanish"])

    def _load(self, request: dict, overlay: Overlay, is_user: UserCode) -> Case:
        """The entry's case from fresh modules, as if this were the first import of the user's code."""
        self.doing = f"loading {request['entry']}"
        forget_user_modules(is_user)
        sys.path[:] = self._path
        sys.argv = [request["entry"], *request.get("arguments", [])]
        os.chdir(self._folder)
        overlay.install()
        try:
            torch.manual_seed(SEED)
            case = entries.load(request["entry"], request, overlay)
            self.doing = f"running {case.described}"
            return select_target(case, request.get("target"))
        finally:
            overlay.remove()
