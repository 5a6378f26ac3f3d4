"""Models from what a user types: real files, real modules, and one broken one per fault."""

import json
import sys
import warnings
import zipfile

import pytest

from helpers import loading, workloads
from helpers.errors import ParameterError

CODE = """
import dataclasses
import sys
import keras

@dataclasses.dataclass
class Options:
    width: "int" = 3

def build():
    import beside_me
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(Options().width)], name=beside_me.NAME)

def wide(width):
    return build()

def narrow(width=3):
    return build()

def raises():
    raise OSError("no <such> disk\\nsecond line")

def leaves():
    sys.exit("usage: my_file.py")

def number():
    return 3

ready = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)], name="ready")
text = "not a function"
"""


@pytest.fixture
def folder(tf, tmp_path, monkeypatch):
    """The folder that the user is in, with a file of functions and a folder with another one."""
    monkeypatch.chdir(tmp_path)
    known = set(sys.modules)
    for place, name in ((tmp_path, "first"), (tmp_path / "deeper", "second")):
        place.mkdir(exist_ok=True)
        (place / "my_file.py").write_text(CODE)
        (place / "beside_me.py").write_text(f"NAME = {name!r}")
    yield tmp_path
    for name in set(sys.modules) - known:
        if name.endswith(("my_file", "beside_me", "broken")):
            del sys.modules[name]


def saved(folder, *layers):
    """Save a model of these layers as m.keras."""
    import keras

    model = keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(2)], name="saved")
    model.compile("adam", "mse")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Keras' own, of NumPy
        model.save(folder / "m.keras")
    return model


@pytest.mark.parametrize("name", workloads.KNOWN)
def test_the_networks_of_the_course_are_known_by_name(tf, name, monkeypatch):
    """Their data are not loaded."""
    monkeypatch.setattr(workloads.datasets, "load", None)

    assert loading.load(name).name == name


def test_a_file_is_loaded_with_its_shapes(folder):
    """As Keras saved it, and not compiled."""
    import keras

    model = saved(folder, keras.layers.Dense(3))

    found = loading.load("m.keras")
    assert (found.name, found.count_params(), found.compiled) == ("saved", model.count_params(), False)
    assert loading.load(str(folder / "m.keras")).input_shape == (None, 4)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("my_file:build", "first"),
        ("my_file.py:build", "first"),
        ("my_file:narrow", "first"),
        ("deeper/my_file.py:build", "second"),
        ("my_file:ready", "ready"),
    ],
)
def test_a_function_is_found_by_module_or_by_file(folder, text, name):
    """With the modules that lie beside it; afterwards the search is as it was."""
    before = list(sys.path)

    assert loading.load(text).name == name
    assert sys.path == before


def test_a_file_is_executed_anew_each_time(folder):
    """In a notebook it may have been edited."""
    loading.load("my_file.py:build")
    (folder / "my_file.py").write_text(CODE.replace("beside_me.NAME", "'edited'"))

    assert loading.load("my_file.py:build").name == "edited"


def test_only_what_was_named_is_executed(folder):
    """No other function of the file, and no other file."""
    (folder / "my_file.py").write_text(CODE + "\ndef other():\n    open('trace', 'w')\n")
    (folder / "other.py").write_text("open('trace', 'w')")

    loading.load("my_file.py:build")

    assert not (folder / "trace").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("m.keras", "There is no file m.keras.*meant from the folder that you are in"),
        ("old.h5", "old.h5 is in the older format HDF5.*load_model.'old.h5'.*save it again"),
        ("m.weights.h5", "holds weights only"),
        ("deeper", "deeper is a folder.*Save the model in one file"),
        ("", "'' is no model.*Accepted are a .keras file"),
        ("mnist_mpl", "'mnist_mpl' is no model.*Did you mean mnist_mlp"),
        ("my_file.py", "Name the function in it that returns the model: my_file.py:build"),
        ("absent.py:build", "There is no file absent.py"),
        ("absent:build", "There is no module absent"),
        ("my_file.absent:build", "There is no module my_file.absent"),
        ("a b:build", "'a b' is not the name of a module"),
        (":build", "'' is not the name of a module"),
        ("my_file:bild", "no function 'bild' in my_file. There are build, .*Did you mean my_file:build"),
        ("my_file:", "There is no function ''"),
        ("my_file:text", "my_file:text is not a function, but str"),
        ("my_file:wide", "my_file:wide needs arguments .*'width'.*Give its arguments defaults"),
        ("my_file:raises", "my_file:raises ended in an error: OSError: no <such> disk. Accepted"),
        ("my_file:leaves", "ended in an error: SystemExit: usage: my_file.py"),
        ("my_file.py:number", "my_file.py:number returned int, not a Keras model.*`return model`"),
    ],
)
def test_what_is_no_model_is_refused_in_words(folder, text, words):
    """What it is instead, and what to type."""
    with pytest.raises(ParameterError, match=words):
        loading.load(text)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("def build(:", "broken cannot be imported: SyntaxError: .*broken.py, line 1"),
        ("import no_such_package", "ModuleNotFoundError.*Install no_such_package into this environment"),
        ("raise SystemExit(3)", "broken cannot be imported: SystemExit: 3"),
        ("1 / 0", "broken cannot be imported: ZeroDivisionError: division by zero"),
    ],
)
def test_a_module_that_cannot_be_imported_is_said_with_the_reason(folder, code, words):
    """Its own error, in one line."""
    (folder / "broken.py").write_text(code)

    with pytest.raises(ParameterError, match=words):
        loading.load("broken:build")


@pytest.mark.parametrize("function", [lambda x: 2 * x, abs])
def test_a_lambda_layer_is_refused_with_the_reason(folder, function):
    """It holds code; nothing of it runs."""
    import keras

    saved(folder, keras.layers.Lambda(function, output_shape=(4,)))

    with pytest.raises(ParameterError, match="m.keras has a Lambda layer.*harm you.*Use keras.ops.*my_file.py:build"):
        loading.load("m.keras")


def test_a_layer_whose_code_is_elsewhere_is_named(folder):
    """Keras cannot make it from the file alone."""
    import keras

    class Doubled(keras.layers.Layer):
        def call(self, x):
            return 2 * x

    saved(folder, Doubled())

    with pytest.raises(ParameterError, match="a layer or function of its own, Doubled.*name that: my_file.py:build"):
        loading.load("m.keras")


def _archive(path, **members) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name.replace("_", "."), text)


@pytest.mark.parametrize(
    "members",
    [None, {}, {"other_txt": "hello"}, {"config_json": "{"}, {"config_json": "[" * 100_000}],
)
def test_a_file_that_keras_has_not_saved_is_refused(folder, members):
    """Text, an archive without a model, and damaged ones."""
    if members is None:
        (folder / "m.keras").write_text("hello")
    else:
        _archive(folder / "m.keras", **members)

    with pytest.raises(ParameterError, match="m.keras is not a file that Keras 3 has saved, or it is damaged"):
        loading.load("m.keras")


@pytest.mark.parametrize("config", ["3", '{"class_name": ["a"]}', '{"module": "os", "class_name": "getcwd"}'])
def test_a_file_that_keras_cannot_load_is_refused_with_its_reason(folder, config):
    """The archive looks right, but what is in it is no model."""
    _archive(folder / "m.keras", config_json=config, metadata_json=json.dumps({"keras_version": "3.15.1"}))

    with pytest.raises(ParameterError, match="m.keras"):
        loading.load("m.keras")


def test_half_a_file_is_refused(folder):
    """A download that was cut off."""
    saved(folder)
    whole = (folder / "m.keras").read_bytes()
    (folder / "m.keras").write_bytes(whole[: len(whole) // 2])

    with pytest.raises(ParameterError, match="damaged"):
        loading.load("m.keras")


def test_a_file_executes_no_code_that_lies_beside_it(folder, monkeypatch):
    """It may name a module: that is not what the user named."""
    monkeypatch.syspath_prepend(folder)
    (folder / "evil.py").write_text("open('trace', 'w')\nclass Layer: pass")
    config = {"module": "evil", "class_name": "Layer", "config": {}, "registered_name": "Layer"}
    _archive(folder / "m.keras", config_json=json.dumps(config), metadata_json='{"keras_version": "3.15.1"}')

    with pytest.raises(ParameterError, match="of its own, Layer"):
        loading.load("m.keras")
    assert not (folder / "trace").exists()
