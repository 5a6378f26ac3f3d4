"""Try TensorFlow out: two real operations on every device, compared with NumPy."""

import json
import signal
import subprocess
import sys
from pathlib import Path

from helpers import devices


def run() -> dict:
    """Load TensorFlow, and multiply and convolve on every device: {`version`, `devices`: [{…}]}."""
    tf = devices.load_tensorflow()
    return {"version": tf.__version__, "devices": [_try_out(device) for device in devices.available()]}


def _try_out(device: devices.Device) -> dict:
    """Return the device's name, hardware, and for two real operations "right" or what went wrong."""
    import numpy as np

    tf = devices.load_tensorflow()
    random = np.random.default_rng(0)
    matrix = random.standard_normal((64, 64)).astype("float32")
    image = random.standard_normal((1, 16, 16, 3)).astype("float32")
    ones = np.ones((3, 3, 3, 1), "float32")
    patches = np.lib.stride_tricks.sliding_window_view(image[0], (3, 3), axis=(0, 1))
    work = {
        "matmul": (lambda: tf.matmul(tf.constant(matrix), tf.constant(matrix)), matrix @ matrix),
        "convolution": (lambda: tf.nn.conv2d(image, ones, 1, "VALID")[0, ..., 0], patches.sum((2, 3, 4))),
    }
    outcome = {}
    for name, (operation, expected) in work.items():
        try:
            with tf.device(str(device)):
                result = operation()
            devices.verify(result, device)
            # TF32 keeps 10 bits of the mantissa: sums of 64 terms then err by less than 0.1.
            outcome[name] = "right" if np.allclose(result, expected, atol=0.1) else "a wrong result"
        except (tf.errors.OpError, devices.DeviceError) as error:
            outcome[name] = str(error).splitlines()[0][:200]
    capability = devices.gpu_details(device).get("compute_capability")
    return {"name": str(device), "hardware": devices.hardware_name(device), "capability": capability, **outcome}


def run_apart() -> dict:
    """Do the same as `run` in a process of its own: a GPU that does not suit can abort TensorFlow."""
    code = "import json; from helpers import probe; print(); print(json.dumps(probe.run()))"
    here = Path(__file__).resolve().parent.parent  # a file named random.py in the user's folder must not be found
    try:
        answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, cwd=here)
    except subprocess.TimeoutExpired:
        return {"died": "it did not answer within 300 s"}
    if answer.returncode == 0:
        return json.loads(answer.stdout.splitlines()[-1])
    if answer.returncode < 0:
        return {"died": f"it was ended by {signal.Signals(-answer.returncode).name}"}
    return {"died": (answer.stderr.strip().splitlines() or ["no message"])[-1][:300]}
