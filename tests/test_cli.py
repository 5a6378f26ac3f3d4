"""The command `course predict`, as a user types it: real files, and what is printed."""

import json
import os
import re
import subprocess
import sys

import pytest

from helpers import calibrate, cli, forecast

CODE = """
import keras

def build():
    print("the user's own words")
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)], name="mine")
"""


@pytest.fixture
def folder(tf, tmp_path, monkeypatch):
    """The folder that the user is in: with a file of code, and no records."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COURSE_RESULTS", str(tmp_path / "records"))
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "2")
    (tmp_path / "my_file.py").write_text(CODE)
    return tmp_path


def test_several_models_are_predicted_on_several_devices(folder, capsys):
    """A table for each, in the order in which they were named."""
    code = cli.main(["predict", "mnist_mlp", "my_file.py:build", "--on", "T4", "--on", "RTX 4090", "--batch", "1,8"])

    printed = capsys.readouterr()
    first, second = printed.out.split("my_file.py:build: 15 parameters.")
    assert code == 0 and first.startswith("mnist_mlp: 795,010 parameters.")
    for part in (first, second):
        assert "GeForce RTX 4090 is" in part and "These are predictions" in part
    assert printed.err == "the user's own words\n"


def test_json_goes_to_a_file_or_alone_to_the_output(folder, capsys):
    """A program reads the same from both; with - nothing else is printed, whatever the user's code prints."""
    words = ["predict", "my_file.py:build", "mnist_mlp", "--batch", "32"]
    assert cli.main([*words, "--json", "out.json"]) == 0
    assert "These are predictions" in capsys.readouterr().out

    assert cli.main([*words, "--json", "-"]) == 0

    content = json.loads(capsys.readouterr().out)
    assert content == json.loads((folder / "out.json").read_text())
    assert content["schema"] == 1 and [row["model"] for row in content["models"]] == ["my_file.py:build", "mnist_mlp"]
    reference = f"reference: {calibrate.reference().name}"
    assert [row["name"] for row in content["models"][0]["devices"]] == [reference, "Tesla T4"]


def test_a_picture_is_drawn_of_all_models(folder, capsys):
    """One below the other."""
    import matplotlib.image

    for models in (["mnist_mlp"], ["mnist_mlp", "mnist_cnn"]):
        assert cli.main(["predict", *models, "--batch", "1..64", "--picture", f"{len(models)}.png"]) == 0

    one, two = (matplotlib.image.imread(folder / f"{count}.png") for count in (1, 2))
    assert two.shape[0] == 2 * one.shape[0] and one.std() > 0.05
    assert capsys.readouterr().err == "Look at 1.png\nLook at 2.png\n"


def test_the_devices_are_listed(capsys):
    """No model is needed for that."""
    assert cli.main(["predict", "--devices"]) == 0

    assert capsys.readouterr().out == forecast.catalogue() + "\n"


def test_this_machine_is_calibrated_and_then_takes_part(folder, capsys, monkeypatch):
    """What is measured for a minute is replaced by the shipped record, of this machine."""
    shipped = calibrate.reference()
    monkeypatch.setattr(calibrate, "measure", lambda _settings, _device: shipped)
    monkeypatch.setattr(forecast, "here", lambda: ([forecast.calibrated_now(None)], ["calibration--half.json: broken"]))

    assert cli.main(["predict", "mnist_mlp", "--calibrate", "--on", "here", "--batch", "1"]) == 0
    printed = capsys.readouterr()
    assert f"here: {shipped.name} spends" in printed.out
    assert printed.err.splitlines() == [
        "Measuring CPU:0: about a minute. Leave the machine alone.",
        f"Calibrated, here: {shipped.name}.",
        "Not used: calibration--half.json: broken",
    ]
    assert cli.main(["predict", "--calibrate"]) == 0  # no model is needed for that


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "No model was named.*course predict mnist_mlp"),
        (["absent.keras"], "There is no file absent.keras"),
        (["mnist_mlp", "--batch", "0"], "--batch '0' is not possible"),
        (["mnist_mlp", "--on", "RTX 409"], "The nearest names are .*4090"),
        (["mnist_mlp", "--on", "here"], "not calibrated.*course predict --calibrate"),
        (["mnist_mlp", "--way", "slow"], "no way of training 'slow'"),
        (["mnist_mlp", "--picture", "a.jpg"], "a.jpg cannot be written: its name does not end in .png"),
        (["cifar_cnn", "--batch", "1000000", "--picture", "a.png"], "nothing to draw: no batch fits.*smaller"),
        (["mnist_mlp", "--batch", "1", "--json", "no/a.json"], "no/a.json cannot be written: No such file"),
        (["mnist_mlp", "--batch", "1", "--picture", "no/a.png"], "no/a.png cannot be written: No such file"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(folder, capsys, words, said):
    """Exit code 2, and no traceback."""
    assert cli.main(["predict", *words]) == 2

    error = capsys.readouterr().err
    assert error.startswith("course: ") and error.count("\n") == 1 and re.search(said, error)


def test_the_command_itself_prints_json_alone(folder):
    """In a process of its own, where TensorFlow has not been silenced."""
    command = [sys.executable, "-c", "import sys; from helpers.cli import main; sys.exit(main(sys.argv[1:]))"]
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}

    answer = subprocess.run(
        [*command, "predict", "my_file:build", "--on", "T4", "--batch", "1", "--json", "-"],
        capture_output=True, text=True, timeout=120, env=environment,
    )  # fmt: skip

    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["models"][0]["parameters"] == 15
    assert answer.stderr == "the user's own words\n"
