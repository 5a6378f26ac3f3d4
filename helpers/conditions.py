"""What decides a timing beside the hardware: versions, and the switches of TensorFlow as they stand."""

import os
import platform
import re

from helpers import devices, machine


def versions() -> dict[str, str | None]:
    """Return the versions that decide a timing; None for what is not installed or not built in."""
    tf = devices.load_tensorflow()
    build = tf.sysconfig.get_build_info()
    installed = machine.installed_version
    return {
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "keras": installed("keras"),
        "numpy": installed("numpy"),
        "cuda": build.get("cuda_version"),
        "cudnn": installed("nvidia-cudnn-cu12") or build.get("cudnn_version"),
        "course": installed("cpu-or-gpu"),
    }


def runtime_flags() -> dict:
    """Return the switches of TensorFlow that change a timing, as they stand now."""
    tf = devices.load_tensorflow()
    return {
        "tf32": tf.config.experimental.tensor_float_32_execution_enabled(),
        "onednn": os.environ.get("TF_ENABLE_ONEDNN_OPTS", "default"),
        "xla_flags": re.findall(r"--(\w+)", os.environ.get("XLA_FLAGS", "")),  # names alone: values may be paths
        # 0 lets TensorFlow take one thread per core
        "intra_op_threads": tf.config.threading.get_intra_op_parallelism_threads(),
        "inter_op_threads": tf.config.threading.get_inter_op_parallelism_threads(),
    }
