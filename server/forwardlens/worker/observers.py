# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false, reportPrivateImportUsage=false
"""Trace functions and profilers of the user's own program, which would watch, or end, the measurement."""

from __future__ import annotations

import os
import sys
import threading

import torch
from torch.autograd import profiler as torch_profiler

from .failures import OURS, Failure, user_place, where

# Taken before any code of the user's can put others in their place.
settrace, gettrace = sys.settrace, sys.gettrace
setprofile, getprofile = sys.setprofile, sys.getprofile
_TORCH = os.path.dirname(torch.__file__)


class Observers:
    """Sees who sets what from loading on; `put_aside` switches it off, and from then on it stays off in this thread.

    `notes` tell the user, with the place.
    """

    def __init__(self, is_user) -> None:
        self.notes: list[dict] = []
        self._is_user = is_user
        self._thread = threading.get_ident()
        self._aside = False
        self._places: dict[str, tuple[str | None, int | None]] = {}

    def __enter__(self) -> Observers:
        self._enable = torch_profiler._enable_profiler
        self._ours = [self._watched("sys.settrace", settrace), self._watched("sys.setprofile", setprofile)]
        sys.settrace, sys.setprofile = self._ours
        torch_profiler._enable_profiler = self._enable_profiler
        return self

    def __exit__(self, kind, error, trace) -> None:
        if sys.settrace is self._ours[0]:
            sys.settrace = settrace
        if sys.setprofile is self._ours[1]:
            sys.setprofile = setprofile
        torch_profiler._enable_profiler = self._enable

    def put_aside(self) -> None:
        if gettrace() is not None:
            settrace(None)
            self._note("sys.settrace")
        if getprofile() is not None:
            setprofile(None)
            self._note("sys.setprofile")
        if torch._C._autograd._profiler_enabled():
            torch.autograd._disable_profiler()
            self._note("torch's profiler")
        self._aside = True

    def _watched(self, name: str, original):
        def watched(function):
            if threading.get_ident() != self._thread:
                return original(function)
            self._places[name] = user_place(sys._getframe(1), self._is_user)
            if not self._aside:
                return original(function)
            if function is not None and not any(note["what"] == name for note in self.notes):
                self._note(name)
            return None

        return watched

    def _enable_profiler(self, *args, **kwargs):
        place = self._places["torch's profiler"] = user_place(_caller_of_torch(), self._is_user)
        if self._aside and not _is_ours(_caller_of_torch()) and threading.get_ident() == self._thread:
            reason = "the forward starts a profiler of torch's, and only one can record at a time"
            raise Failure("entry", f"{where(place)}{reason}; take it out of the forward to profile it here", *place)
        return self._enable(*args, **kwargs)

    def _note(self, name: str) -> None:
        file, line = self._places.get(name, (None, None))
        message = f"the program has {name} watch it; that is left out while it is measured"
        self.notes.append({"what": name, "message": message, "file": file, "line": line})


def _caller_of_torch():
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_TORCH):
        frame = frame.f_back
    return frame


def _is_ours(frame) -> bool:
    return frame.f_code.co_filename.startswith(OURS)
