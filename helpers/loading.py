"""Load the Keras model that a text means: a `.keras` file, `my_file.py:function`, or a network of the course.

Only what the text names is executed. A file is data: it cannot bring code along.
"""

import difflib
import importlib
import importlib.util
import inspect
import json
import re
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from helpers import devices, models, workloads
from helpers.errors import ParameterError

ACCEPTED = (
    "Accepted are a .keras file, `my_file.py:function`, `module:function`, "
    f"or a network of the course: {', '.join(workloads.KNOWN)}."
)
SAVE = "model.save('my_model.keras')"
_UNREADABLE = (OSError, zipfile.BadZipFile, zlib.error, LookupError, ValueError, RuntimeError, EOFError)


def load(text: str):
    """Return the model that a text means, or raise `ParameterError` that says what is wrong with it."""
    path = Path(text)
    if path.suffix.lower() == ".keras":
        return _from_file(path)
    if text in workloads.KNOWN:
        devices.load_tensorflow()
        return getattr(models, text)()  # from its own function: a workload would load its data, too
    _refuse_other_formats(text)
    place, colon, name = text.rpartition(":")
    if colon:
        return _from_function(place, name)
    near = difflib.get_close_matches(text, workloads.KNOWN, n=1)
    next_step = f"Did you mean {near[0]}?" if near else "Correct it; a path is meant from the folder that you are in."
    if path.suffix == ".py":
        next_step = f"Name the function in it that returns the model: {text}:build."
    raise ParameterError(f"{text!r:.200} is no model.", ACCEPTED, next_step)


def _refuse_other_formats(text: str) -> None:
    path = Path(text)
    if path.name.lower().endswith(".weights.h5"):
        raise ParameterError(
            f"{path.name} holds weights only, and not which layers they belong to.",
            ACCEPTED,
            f"Save the whole model where it was made: {SAVE}.",
        )
    if path.suffix.lower() in (".h5", ".hdf5"):
        raise ParameterError(
            f"{path.name} is in the older format HDF5.",
            ACCEPTED,
            f"Load it where it was made, with keras.models.load_model({path.name!r}), and save it again: {SAVE}.",
        )
    if text.strip() and path.is_dir():
        raise ParameterError(
            f"{path.name or path} is a folder.", ACCEPTED, f"Save the model in one file where it was made: {SAVE}."
        )


def _from_file(path: Path):
    if not path.is_file():
        raise ParameterError(
            f"There is no file {path}.", ACCEPTED, "Correct the path: it is meant from the folder that you are in."
        )
    if "Lambda" in _classes(path):
        raise ParameterError(
            f"{path.name} has a Lambda layer. It keeps its function as code, which a file might use to harm you.",
            "Accepted are files without Lambda layers.",
            "Use keras.ops or a layer of Keras in its place; or write a function that builds the model, and name that: "
            "my_file.py:build.",
        )
    devices.load_tensorflow()
    import keras

    try:
        return keras.saving.load_model(path, compile=False, safe_mode=True)
    except Exception as error:  # a file may hold anything
        raise _not_loaded(path, error) from error


def _classes(path: Path) -> set[str]:
    """Return the names of the classes in a .keras file: it is a zip file, and config.json in it lists the layers."""
    found = set()
    try:
        with zipfile.ZipFile(path) as archive:
            json.loads(archive.read("config.json"), object_hook=lambda node: found.add(str(node.get("class_name"))))
    except _UNREADABLE as error:  # RecursionError is a RuntimeError
        raise ParameterError(
            f"{path.name} is not a file that Keras 3 has saved, or it is damaged.",
            ACCEPTED,
            f"Save the model again: {SAVE}.",
        ) from error
    return found


def _not_loaded(path: Path, error: Exception) -> ParameterError:
    """Return in words why Keras cannot load a file."""
    own = re.search(r"Could not locate (?:class|function) '(\w{1,99})'", str(error))
    if own:
        return ParameterError(
            f"{path.name} has a layer or function of its own, {own[1]}, whose code is not in the file.",
            "Accepted are files that hold layers of Keras only.",
            "Write a function that builds the model where its code is, and name that: my_file.py:build.",
        )
    return ParameterError(
        f"Keras cannot load {path.name}: {_said(error)}.", ACCEPTED, "Save it again with the Keras that runs here."
    )


def _said(error: BaseException) -> str:
    """Return an error as one line."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "no more is known")
    return f"{type(error).__name__}: {first:.300}".rstrip(".")


def _from_function(place: str, name: str):
    devices.load_tensorflow()
    import keras  # before the user's folder is searched: a file in there may be named like a module that Keras needs

    with _searched(Path.cwd()), _searched(Path(place).absolute().parent if place.endswith(".py") else Path.cwd()):
        found = _found(_module(place), place, name)
        model = found if isinstance(found, keras.Model) else _called(found, f"{place}:{name}")
    if not isinstance(model, keras.Model):
        raise ParameterError(
            f"{place}:{name} returned {type(model).__name__}, not a Keras model.",
            "Accepted is a function that returns a keras.Model, as keras.Sequential is.",
            f"Let {name} end in `return model`.",
        )
    return model


@contextmanager
def _searched(folder: Path) -> Iterator[None]:
    """Search a folder first for modules, as Python does for a program that lies in it."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        with suppress(ValueError):  # the user's code may have taken it out
            sys.path.remove(str(folder))


def _module(place: str):
    """Return the module of a name, or of a path that ends in .py."""
    is_file = place.endswith(".py")
    if is_file and not Path(place).is_file():
        raise ParameterError(
            f"There is no file {place}.", ACCEPTED, "Correct the path: it is meant from the folder that you are in."
        )
    if not is_file and not all(part.isidentifier() for part in place.split(".")):
        raise ParameterError(f"{place!r:.200} is not the name of a module.", ACCEPTED, "Correct what is before the :.")
    importlib.invalidate_caches()  # the file may be younger than the last search
    try:
        return _executed(Path(place)) if is_file else importlib.import_module(place)
    except (Exception, SystemExit) as error:  # the user's own code may raise anything
        raise _not_imported(place, error) from error


def _executed(path: Path):
    """Return the module of a file, executed anew: in a notebook it may have been edited since."""
    spec = importlib.util.spec_from_file_location(f"model_file_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for the module of a class
    spec.loader.exec_module(module)
    return module


def _not_imported(place: str, error: BaseException) -> ParameterError:
    missing = isinstance(error, ModuleNotFoundError) and error.name
    if missing and f"{place}.".startswith(f"{missing}."):
        return ParameterError(
            f"There is no module {missing}.",
            "Accepted is what `import` finds from the folder that you are in, or the path of a file: my_file.py:build.",
            "Correct the name, or go to the folder of the file.",
        )
    return ParameterError(
        f"{place} cannot be imported: {_said(error)}.",
        "Accepted is a module that runs without an error when it is imported.",
        f"Install {missing} into this environment." if missing else "Correct it, and try again.",
    )


def _found(module, place: str, name: str):
    """Return what has a name in a module."""
    if name and hasattr(module, name):
        return getattr(module, name)
    there = [key for key, value in vars(module).items() if inspect.isfunction(value) and not key.startswith("_")]
    near = difflib.get_close_matches(name, there, n=1)
    raise ParameterError(
        f"There is no function {name!r} in {place}.",
        f"There are {', '.join(there[:10])}." if there else "It has no functions.",
        f"Did you mean {place}:{near[0]}?" if near else "Name the one that returns the model.",
    )


def _called(function: Callable, label: str):
    """Return what a function returns without arguments."""
    if not callable(function):
        raise ParameterError(
            f"{label} is not a function, but {type(function).__name__}.",
            "Accepted is a function that returns a Keras model.",
            "Name the function that builds the model.",
        )
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        raise ParameterError(
            f"{label} needs arguments ({error}).",
            "Accepted is a function that can be called without any.",
            "Give its arguments defaults, or write a function without arguments that calls it.",
        ) from error
    except ValueError:  # written in C: it does not tell what it needs
        pass
    try:
        return function()
    except (Exception, SystemExit) as error:  # the user's own code may raise anything
        raise ParameterError(
            f"{label} ended in an error: {_said(error)}.",
            "Accepted is a function that returns a Keras model.",
            "Call it in Python to see where that comes from.",
        ) from error
