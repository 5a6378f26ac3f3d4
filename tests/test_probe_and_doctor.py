"""The doctor: real work on the devices here, and the right words for machines that nobody here has."""

import dataclasses
import signal
import subprocess

import pytest

from helpers import doctor, probe
from helpers.doctor import Facts

NEWEST = {"tensorflow-cpu": "2.21.0", "keras": "3.15.1", "numpy": "2.4.6", "papermill": "2.7.0"}
CPU = {"name": "CPU:0", "hardware": "AMD EPYC", "capability": None, "matmul": "right", "convolution": "right"}
GPU = CPU | {"name": "GPU:0", "hardware": "NVIDIA H200", "capability": (9, 0)}
WELL = Facts(
    python=(3, 11, 7),
    system="Linux",
    release="6.1",
    environment={},
    installed=NEWEST,
    tested=NEWEST,
    driver=[["NVIDIA H200", "570.1", "143771"]],
    cuda_libraries=doctor.CUDA_LIBRARIES,
    probe={"version": "2.21.0", "devices": [CPU, GPU]},
)


def findings(**changed) -> list[doctor.Finding]:
    facts = dataclasses.replace(WELL, **changed)
    return [finding for check in doctor.CHECKS for finding in check(facts)]


def test_a_healthy_gpu_machine_gets_no_remark():
    """Otherwise every other test here proves nothing."""
    assert {finding.state for finding in findings()} == {"ok"}


WITHOUT_GPU = {"version": "2.21.0", "devices": [CPU]}


@pytest.mark.parametrize(
    ("changed", "state", "words", "next_step"),
    [
        ({"python": (3, 9, 1)}, "fail", "3.9.1; 3.10 to 3.13 is needed", "PYTHON=python3.12"),
        ({"python": (3, 14, 0)}, "fail", "3.14.0; 3.10 to 3.13 is needed", "PYTHON="),
        ({"installed": {}}, "fail", "TensorFlow is not installed", "make setup"),
        ({"installed": {"tensorflow": "2.21.0"}}, "fail", "not installed: keras, numpy, papermill", "make setup"),
        ({"installed": NEWEST | {"keras": "2.15.0"}}, "note", "tested with keras 3.15.1", "make setup"),
        ({"environment": {"KERAS_BACKEND": "jax"}}, "fail", "backend 'jax'", "unset KERAS_BACKEND"),
        ({"keras_config": {"backend": "torch"}}, "fail", "backend 'torch'", "keras.json"),
        ({"keras_config": {"image_data_format": "channels_first"}}, "fail", "channels first", "channels_last"),
        ({"environment": {"TF_ENABLE_ONEDNN_OPTS": "0"}}, "note", "oneDNN is switched off", "unset TF_ENABLE"),
        ({"probe": {"died": "it was ended by SIGILL"}}, "fail", "ended by SIGILL", "course check"),
        ({"driver": None, "probe": WITHOUT_GPU}, "note", "none to be seen", "install NVIDIA's driver if this machine"),
        (
            {"driver": None, "probe": WITHOUT_GPU, "release": "5.15-microsoft-standard-WSL2"},
            "note",
            "none to be seen",
            "on Windows, not inside WSL2",
        ),
        ({"driver": None, "probe": WITHOUT_GPU, "system": "Windows"}, "note", "since 2.11", "use WSL2"),
        ({"driver": None, "probe": WITHOUT_GPU, "system": "Darwin"}, "note", "no GPU support on macOS", ""),
        ({"probe": WITHOUT_GPU, "cuda_libraries": ()}, "note", "this is the CPU environment", "make lab ENV=gpu"),
        (
            {"probe": WITHOUT_GPU, "cuda_libraries": doctor.CUDA_LIBRARIES[1:]},
            "fail",
            "missing CUDA libraries: cublas",
            "ENV=gpu",
        ),
        (
            {"probe": WITHOUT_GPU, "environment": {"CUDA_VISIBLE_DEVICES": "-1"}},
            "fail",
            "CUDA_VISIBLE_DEVICES='-1' hides it",
            "unset CUDA_VISIBLE_DEVICES",
        ),
        (
            {"probe": WITHOUT_GPU, "environment": {"CUDA_VISIBLE_DEVICES": ""}},
            "fail",
            "CUDA_VISIBLE_DEVICES='' hides it",
            "unset",
        ),
        (
            {"probe": {"version": "2", "devices": [GPU | {"capability": (3, 5)}]}},
            "fail",
            "3.5; TensorFlow needs 6.0",
            "devices='CPU:0'",
        ),
        (
            {"probe": {"version": "2", "devices": [GPU | {"capability": (12, 0)}]}},
            "fail",
            "no kernels for 12.0",
            "devices='CPU:0'",
        ),
        (
            {
                "probe": {"version": "2", "devices": [GPU | {"capability": (6, 1)}]},
                "installed": NEWEST | {"nvidia-cudnn-cu12": "9.28.0"},
            },
            "fail",
            "cuDNN (9.28) needs 7.5",
            "nvidia-cudnn-cu12<9.11",
        ),
        (
            {"probe": {"version": "2", "devices": [GPU | {"convolution": "DNN library initialization failed"}]}},
            "fail",
            "convolution: DNN library",
            "close other notebooks",
        ),
    ],
)
def test_each_fault_is_named_with_the_next_command(changed, state, words, next_step):
    """One fault, one finding in the right state, and what to type."""
    found = [finding for finding in findings(**changed) if words in finding.words]

    assert len(found) >= 1
    assert found[0].state == state
    assert next_step in found[0].next_step


def test_an_old_gpu_with_an_old_cudnn_is_well():
    """Pascal works with cuDNN below 9.11."""
    old = [CPU, GPU | {"capability": (6, 1)}]

    found = findings(probe={"version": "2", "devices": old}, installed=NEWEST | {"nvidia-cudnn-cu12": "9.10.2"})

    assert {finding.state for finding in found} == {"ok"}


def test_the_doctor_examines_this_machine(tf):
    """Every layer, in order, with real work on both logical CPUs."""
    report = doctor.examine(probe.run)

    layers = [finding.layer for finding in report.findings]
    assert layers[:3] == ["Python", "packages", "settings"] and layers[-2:] == ["CPU:0", "CPU:1"]
    assert [str(finding)[:6] for finding in report.findings[-2:]] == ["[ ok ]", "[ ok ]"]
    assert not report.failed
    assert [name for name, _, _ in doctor.stack(report)][:3] == ["your code", "Keras", "TensorFlow"]


def test_an_operation_that_fails_is_reported_and_not_raised(tf, monkeypatch):
    """A GPU can be listed and fail at its first convolution."""

    def fails(*_args, **_options):
        raise tf.errors.InternalError(None, None, "DNN library initialization failed.\nmore")

    monkeypatch.setattr(tf.nn, "conv2d", fails)

    first = probe.run()["devices"][0]

    assert first["matmul"] == "right"
    assert first["convolution"] == "DNN library initialization failed."


def test_a_wrong_result_is_noticed(tf, monkeypatch):
    """Numbers are compared with NumPy's, not just computed."""
    monkeypatch.setattr(tf, "matmul", lambda a, b: a + b)

    assert probe.run()["devices"][0]["matmul"] == "a wrong result"


@pytest.mark.parametrize(
    ("returncode", "stderr", "words"),
    [
        (-signal.SIGABRT, "", "SIGABRT"),
        (1, "Traceback\nImportError: no AVX", "ImportError: no AVX"),
        (1, "", "no message"),
    ],
)
def test_a_tensorflow_that_dies_is_reported(monkeypatch, returncode, stderr, words):
    """XLA aborts the whole process on a GPU that is too new: the doctor must survive it."""

    def dies(command, **_options):
        return subprocess.CompletedProcess(command, returncode, stdout="", stderr=stderr)

    monkeypatch.setattr(probe.subprocess, "run", dies)

    assert words in probe.run_apart()["died"]


def test_a_damaged_keras_json_is_named(tmp_path):
    """Keras itself would fail with a page of traceback."""
    path = tmp_path / "keras.json"
    path.write_text('{"backend": ')

    config = doctor._keras_config(path)

    assert "unreadable: keras.json" in [f for f in findings(keras_config=config) if f.state == "fail"][0].words
    assert doctor._keras_config(tmp_path / "none.json") == {}
