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
        **_float32(device),
    }


def _float32(device: torch.device) -> dict:
    """How precisely float32 products are computed. TF32 exists from compute capability 8.0 on: Ampere."""
    capability = None
    if device.type == "cuda" and torch.version.cuda is not None:
        capability = torch.cuda.get_device_capability(device)
    has_tf32 = capability is not None and capability >= (8, 0)
    return {
        "compute_capability": None if capability is None else "{}.{}".format(*capability),
        "float32_matmul_precision": _matmul_precision(),
        "matmul_tf32": _allows_tf32(torch.backends.cuda.matmul) if has_tf32 else None,
        "conv_tf32": _allows_tf32(torch.backends.cudnn.conv, torch.backends.cudnn) if has_tf32 else None,
    }


def _matmul_precision() -> str | None:
    """`highest`, `high` or `medium`; None where the program set it through the newer settings, which torch refuses to
    mix with this one.
    """
    with contextlib.suppress(RuntimeError):
        return torch.get_float32_matmul_precision()
    return None


def _allows_tf32(settings, older_settings=None) -> bool:
    """`fp32_precision`, since torch 2.9, also knows what was set by `allow_tf32`; reading the latter can raise then."""
    with contextlib.suppress(AttributeError, RuntimeError):
        return settings.fp32_precision == "tf32"
    return bool((older_settings or settings).allow_tf32)


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
