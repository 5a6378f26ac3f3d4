"""Naming, finding, choosing and verifying devices."""

import subprocess

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import devices, machine
from helpers.devices import Device
from helpers.errors import DeviceError, NotEnoughMemoryError

GPU = Device("GPU", 0)


@pytest.mark.parametrize(
    "name",
    [
        "GPU",
        "gpu",
        "gpu:0",
        " GPU:0 ",
        "/GPU:0",
        "/device:GPU:0",
        "/physical_device:GPU:0",
        GPU,
        "/job:localhost/replica:0/task:0/device:GPU:0",
    ],
)
def test_every_usual_spelling_means_the_same_device(name):
    """Case does not matter, and TensorFlow's long names are understood."""
    assert devices.parse(name) == GPU
    assert str(devices.parse(name)) == "GPU:0"


def test_device_objects_of_tensorflow_are_understood(tf):
    """What TensorFlow lists can be handed back."""
    assert devices.parse(tf.config.list_physical_devices("CPU")[0]) == Device("CPU", 0)
    assert devices.parse(tf.config.list_logical_devices("CPU")[1]) == Device("CPU", 1)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("cuda:0", "Did you mean 'GPU:0'?"),
        ("cuda", "Did you mean 'GPU:0'?"),
        ("mps", "Did you mean 'GPU:0'?"),
        ("GPU0", "Did you mean 'GPU:0'?"),
        ("gpu 1", "Did you mean 'GPU:1'?"),
        ("cpu1", "Did you mean 'CPU:1'?"),
        ("GPU:-1", "course check"),
        ("auto", "course check"),
        ("", "course check"),
        (0, "course check"),
        (None, "course check"),
        (["GPU:0"], "course check"),
    ],
)
def test_a_wrong_spelling_is_refused_with_the_right_one(name, hint):
    """One class of error for all of them, with what is accepted."""
    with pytest.raises(DeviceError) as caught:
        devices.parse(name)

    assert "'/device:GPU:0'" in str(caught.value)
    assert hint in str(caught.value)


@given(st.one_of(st.text(), st.integers(), st.none(), st.floats(), st.binary()))
def test_any_input_is_a_device_or_one_kind_of_error(name):
    """Nothing else may come out of `parse`."""
    try:
        assert devices.parse(name).kind in ("CPU", "GPU", "TPU")
    except DeviceError:
        pass


@pytest.mark.parametrize("name", ["CPU:7", "TPU:0", "GPU:99"])
def test_a_device_that_does_not_exist_is_an_error_that_names_those_that_do(name):
    """TensorFlow would silently use CPU:0."""
    with pytest.raises(DeviceError, match=r"There is no .* here: TensorFlow sees CPU:0, CPU:1.*course check"):
        devices.find(name)


def test_choosing_nothing_takes_every_device_and_a_list_keeps_its_order():
    """None means all; a device named twice is used once."""
    cpus = [Device("CPU", 0), Device("CPU", 1)]

    assert [d for d in devices.choose(None) if d.kind == "CPU"] == cpus
    assert devices.choose("CPU:1, cpu:0,CPU:1") == (cpus[1], cpus[0])
    assert devices.choose(["CPU:1"]) == devices.choose(cpus[1]) == (cpus[1],)
    for nothing in ([], "", ","):
        with pytest.raises(DeviceError):
            devices.choose(nothing)


def test_the_result_tells_where_it_was_computed(tf):
    """Whatever nest of tensors comes back, each device is named once; NumPy says nothing."""
    with tf.device("CPU:1"):
        there = tf.ones(3) + 1
        variable = tf.Variable(1.0)
    with tf.device("CPU:0"):
        here = tf.ones(3) + 1

    assert devices.where(there) == devices.where(variable) == (Device("CPU", 1),)
    assert devices.where({"a": (there, None), "b": [here, there]}) == (Device("CPU", 1), Device("CPU", 0))
    assert devices.where((np.ones(3), 1.0, None, "text")) == ()


def test_what_a_function_returns_tells_where_it_lies_and_not_where_it_was_called(tf):
    """`device` of such a tensor is the caller's wish; the work inside may have gone elsewhere."""

    @tf.function(jit_compile=False)
    def elsewhere():
        with tf.device("CPU:0"):
            return tf.ones(3) + 1

    with tf.device("CPU:1"):
        result = elsewhere()

    assert devices.where(result) == (Device("CPU", 0),)


def test_keras_variables_tell_where_they_are(tf):
    """A model's weights are the proof for work that returns NumPy."""
    with tf.device("CPU:1"):
        model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1)])

    assert devices.where(model.weights) == (Device("CPU", 1),)
    assert devices.where({1: tf.ones(1), "b": None}) != ()


def test_a_result_from_another_device_is_refused(tf):
    """No row may say CPU:1 when CPU:0 did the work."""
    with tf.device("CPU:0"):
        result = tf.ones(3) + 1

    assert devices.verify(result, Device("CPU", 0)) == Device("CPU", 0)
    assert devices.verify(None, Device("CPU", 1)) is None
    with pytest.raises(DeviceError, match="sent to CPU:1, but its result came from CPU:0"):
        devices.verify(result, Device("CPU", 1))


def test_every_visible_gpu_shares_its_memory(tf, monkeypatch):
    """Growth on the first GPU alone makes TensorFlow refuse to start on a machine with two."""
    grown = []
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["first GPU", "second GPU"])
    monkeypatch.setattr(tf.config, "get_logical_device_configuration", lambda gpu: None)
    monkeypatch.setattr(tf.config.experimental, "set_memory_growth", lambda gpu, on: grown.append((gpu, on)))

    devices.available()

    assert grown == [("first GPU", True), ("second GPU", True)]


def test_work_that_does_not_fit_is_refused_with_both_numbers():
    """The reader learns how much is needed and how much is free."""
    cpu = Device("CPU", 0)

    devices.require_memory(cpu, 1000)
    with pytest.raises(NotEnoughMemoryError, match=r"CPU:0 needs 1,000,000.0 GB, [0-9.,]+ GB free"):
        devices.require_memory(cpu, 10**15)


def test_a_limit_on_address_space_counts_as_memory(python):
    """`ulimit -v` makes allocations fail long before the memory is used up."""
    code = """
import psutil, resource
from helpers import devices, machine
used = psutil.Process().memory_info().vms
resource.setrlimit(resource.RLIMIT_AS, (used + 300_000_000, -1))
print(devices.free_memory(devices.Device("CPU", 0)))
"""
    assert 0 < int(python(code)) <= 300_000_000


def test_the_limit_of_a_container_counts_as_memory(monkeypatch, tmp_path):
    """Its own group or one above it: the tightest counts, and the file cache does not."""
    group = tmp_path / "above" / "mine"
    group.mkdir(parents=True)
    for folder, limit in ((group, "max"), (group.parent, "5000")):
        (folder / "memory.max").write_text(f"{limit}\n")
        (folder / "memory.stat").write_text("anon 2000\nfile 9000\n")
    monkeypatch.setattr(machine, "_control_groups", lambda: [group, group.parent])

    assert devices.free_memory(Device("CPU", 0)) == 3000


def test_sizes_that_do_not_fit_are_named_with_the_reason(monkeypatch):
    """The others go on; if none is left, that is an error."""
    monkeypatch.setattr(devices, "free_memory", lambda device: 10**9)
    cpu = Device("CPU", 0)

    skipped = devices.too_big(cpu, [10, 40_000], lambda size: 4 * size**2)

    assert skipped == {40_000: "size 40000 is skipped: CPU:0 needs 6.4 GB, 1.0 GB free."}
    with pytest.raises(NotEnoughMemoryError, match="needs 6.4 GB"):
        devices.too_big(cpu, [40_000], lambda size: 4 * size**2)


def test_a_driver_that_hangs_does_not_work(monkeypatch):
    """The course goes on without it."""

    def hangs(command, timeout, **_options):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(machine.shutil, "which", lambda name: "/bin/nvidia-smi")
    monkeypatch.setattr(machine.subprocess, "run", hangs)

    assert machine.nvidia_smi("name") is None


def test_the_driver_is_asked_for_the_gpu_that_is_visible(monkeypatch):
    """GPU:0 of TensorFlow is the first one that CUDA_VISIBLE_DEVICES names."""
    asked = []

    def nvidia_smi(command, **_options):
        asked.append(command)
        return subprocess.CompletedProcess(command, 0, stdout="1234\n")

    monkeypatch.setattr(machine.shutil, "which", lambda name: "/bin/nvidia-smi")
    monkeypatch.setattr(machine.subprocess, "run", nvidia_smi)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")

    assert devices.free_memory(Device("GPU", 1)) == 1234 * 2**20
    assert asked[0][-2:] == ["-i", "5"]


def test_without_a_driver_nobody_knows_the_memory_of_a_gpu(monkeypatch):
    """None is an honest answer, and no reason to refuse work."""
    monkeypatch.setattr(machine.shutil, "which", lambda name: None)

    assert devices.free_memory(GPU) is None
    devices.require_memory(GPU, 10**15)


def test_a_python_without_tensorflow_is_named(monkeypatch):
    """The most usual fault: the notebook runs in another Python."""
    monkeypatch.setattr(devices.importlib.util, "find_spec", lambda name: None)

    with pytest.raises(DeviceError, match="TensorFlow is not installed in the Python.*make lab"):
        devices.load_tensorflow()
