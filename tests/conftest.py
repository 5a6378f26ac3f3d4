"""What the tests of the helpers share."""

import os
import subprocess
import sys
from pathlib import Path

import matplotlib
import pytest

matplotlib.use("Agg")
PROJECT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session", autouse=True)
def tf():
    """TensorFlow with two logical CPUs, which stand in for several GPUs."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    import tensorflow

    cpu = tensorflow.config.list_physical_devices("CPU")[0]
    half = tensorflow.config.LogicalDeviceConfiguration()
    tensorflow.config.set_logical_device_configuration(cpu, [half, half])
    assert len(tensorflow.config.list_logical_devices("CPU")) == 2
    return tensorflow


@pytest.fixture
def asynchronous(tf):
    """TensorFlow's asynchronous executor, which stands in for a GPU's queue."""
    tf.config.experimental.set_synchronous_execution(False)
    yield
    tf.test.experimental.sync_devices()
    tf.config.experimental.set_synchronous_execution(True)


@pytest.fixture
def python():
    """Run code in a fresh Python and return what it printed; a failure shows its stderr."""

    def run(code: str, **environment: str) -> str:
        env = os.environ | environment
        answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=120)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    return run
