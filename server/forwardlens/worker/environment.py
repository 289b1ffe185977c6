# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""What was measured on."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
import sys

import torch


def describe(device: torch.device, training: bool) -> dict:
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "platform": f"{platform.system()} {platform.machine()}",
        "device": str(device),
        "device_name": _device_name(device),
        "cuda_runtime": torch.version.cuda if device.type == "cuda" else None,
        "driver": _driver(device),
        "threads": torch.get_num_threads(),
        "grad_mode": torch.is_grad_enabled(),
        "training": training,
    }


def _device_name(device: torch.device) -> str:
    module = getattr(torch, device.type, None)
    if device.type != "cpu" and hasattr(module, "get_device_name"):
        return module.get_device_name(device)
    return _processor()


def _processor() -> str:
    """The processor's marketing name, or its architecture where no file or variable tells it."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    return os.environ.get("PROCESSOR_IDENTIFIER") or platform.processor() or platform.machine()


def _driver(device: torch.device) -> str | None:
    if device.type != "cuda":
        return None
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10, check=True)
        return done.stdout.split()[0]
    return None
