"""Answers to exercises: the right one is right, a slip gets a hint, and nothing ever raises."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import exercises, machine, notebooks
from helpers.comparing import Line
from helpers.devices import Device
from helpers.timing import Measurement
from helpers.training import Training

CPU = Device("CPU", 0)
FIT = "fit on NumPy arrays"


def by_type(**changed) -> dict:
    rows = {name: Measurement(name, CPU, 1.0, (1.0,) * 7) for name in ("float16", "float32", "float64")}
    return rows | changed


LINE = Line(2e-3, 2e-6, (1e-3, 3e-3), (1e-6, 3e-6))
FLAT = Line(2e-3, 0.0, (1e-3, 3e-3), (0.0, 1e-6))
STEEP = Line(0.0, 2e-6, (0.0, 1e-3), (1e-6, 3e-6))


def trained(way="XLA, data by column", steps=100, final=None, val_loss=()) -> Training:
    final = final or {"accuracy": 0.975, "loss": 0.1}
    epochs = Measurement(way, CPU, 1.0, (1.0,) * 3)
    return Training(way, epochs, steps, 10, 10 * steps, {"loss": [0.1] * 4, "val_loss": list(val_loss)}, final, {})


def replicated(count, loss=0.1, seconds=1.0, **changed) -> Training:
    epochs = Measurement("replicas", CPU, seconds, (seconds,) * 7)
    history = {"loss": [0.5, loss]} if loss else {}
    return replace(trained(), epochs=epochs, history=history, flags={"replicas": count}, **changed)


def counts(best=3, worst=5) -> np.ndarray:
    """Return a confusion matrix; the worst of all has the most pictures, and so not the smallest count."""
    found = np.full((10, 10), 2)
    found[range(10), range(10)] = 70
    found[best, best] = 82
    found[worst] = 40
    found[worst, worst] = 71
    return found


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("00-1", {"GPU", "gpu:0", "/device:GPU:0"}, "Right"),
        ("00-1", {"GPU", "GPU:1"}, "Counting starts at 0"),
        ("00-1", ["cuda:0"], "another framework"),
        ("00-1", "GPU", "Give a set"),
        ("00-1", {"GPU"}, "Try every name"),
        ("00-2", machine.usable_cpus(), "Right"),
        ("00-2", 0, "in the line that begins with CPU"),
        ("00-2", "2", "whole number"),
        ("00-3", "CPU:0", "Right: the work went to CPU:0"),
        ("00-3", "/device:cpu:0", "Right"),
        ("00-3", "GPU:7", "asked for"),
        ("00-3", "CPU:1", "The devices here are CPU:0"),
        ("00-3", 0, "as text"),
        ("01-1", by_type(), "too close to call"),
        ("01-1", {}, "keys float16, float32, float64"),
        ("01-1", by_type(float16=0.1), "timing.in_turn"),
        ("01-1", by_type(float16=Measurement("x", Device("CPU", 1), 1.0, (1.0,))), "same device"),
        ("01-2", 2_000_000_000, "Right"),
        ("01-2", 1e9, "two operations"),
        ("01-2", 2 * 1000**3 * 64, "not square"),
        ("01-2", 5, "How many numbers"),
        ("01-2", True, "Give a number"),
        ("01-2", 2 * 1000**400, "Give a number"),
        ("01-3", {"flop_per_second": 8.1e12, "bytes_per_second": 320e9, "size": 152}, "Right: from n = 150 on"),
        ("01-3", {"flop_per_second": 8.1, "bytes_per_second": 320, "size": 152}, "units"),
        ("01-3", {"flop_per_second": 8.1e12, "bytes_per_second": 320e9, "size": 25}, "solve for n"),
        ("01-3", {"flop_per_second": 8.1e12, "bytes_per_second": 320e9, "size": 0}, "above 0"),
        ("01-3", 152, "Give a dict"),
        ("02-1", {"line": LINE, "batch_size": 1000}, "Right"),
        ("02-1", {"line": LINE, "batch_size": 250}, "80% of a step is fixed"),
        ("02-1", {"line": LINE, "batch_size": 0}, "a number above 0"),
        ("02-1", {"line": FLAT, "batch_size": 1000}, "no batch size is large enough"),
        ("02-1", {"line": STEEP, "batch_size": 1000}, "cannot be told from 0"),
        ("02-1", {"line": LINE, "batch_size": "1000"}, "Give a dict"),
        ("02-1", 1000, "Give a dict"),
        ("02-2", {"float32": 180_000_000, "float64": 360e6}, "Right"),
        ("02-2", {"float32": 120_000_000, "float64": 240_000_000}, "labels"),
        ("02-2", {"float32": 12_000_000, "float64": 24_000_000}, "one epoch"),
        ("02-2", {"float32": 1, "float64": 2}, "two coordinates and a label"),
        ("02-2", {"float32": 1}, "keys float32 and float64"),
        ("02-3", trained(steps=100), "Right: 100 steps an epoch, 97.5 % accuracy"),
        ("02-3", trained(steps=10), "only 10 steps"),
        ("02-3", trained(way="fit on NumPy arrays"), "That was trained with: fit on NumPy arrays"),
        ("02-3", trained(final={"loss": 0.1}), "has no accuracy"),
        ("02-3", 0.97, "what the way of training returns"),
        ("03-1", {"parameters": 896, "operations": 1_802_240}, "Right"),
        ("03-1", {"parameters": 864, "operations": 1_802_240}, "one bias"),
        ("03-1", {"parameters": 896, "operations": 1_769_472}, "27 multiplications, 26 additions"),
        ("03-1", {"parameters": 896, "operations": 917_504}, "two"),
        ("03-1", {"parameters": 896, "operations": 5}, "How many does it take"),
        ("03-1", {"parameters": 896}, "keys parameters and operations"),
        ("03-2", 8_586, "Right"),
        ("03-2", 20_000, "20,000 pictures need"),
        ("03-2", "many", "Give a number"),
        ("03-3", 2_609_280, "Right"),
        ("03-3", 11_009_712 / 4, "exactly a quarter"),
        ("03-3", 4.2, "the factor"),
        ("03-3", 7000, "How many columns"),
        ("03-3", None, "Not answered yet"),
        ("04-1", 100 * 3_198_030, "Right: 320 million operations"),
        ("04-1", 3_198_030, "one digit"),
        ("04-1", 100 * 1_589_010, "forward alone"),
        ("04-1", 7, "counting.training_flop"),
        ("04-1", "many", "Give a number"),
        ("04-2", 22_260_280, "Right"),
        ("04-2", 7 * 795_010, "Each takes 4 bytes"),
        ("04-2", 16 * 795_010, "Add what is read and what is written"),
        ("04-2", 5, "How many weights and biases"),
        ("04-2", [], "Give a number"),
        ("04-3", 0.058, "Right"),
        ("04-3", 0.00336, "square root"),
        ("04-3", 0.07707, "the layer after it"),
        ("04-3", 1, "784 inputs"),
        ("04-3", "0.058", "Give a number"),
        ("05-1", 5_651_856, "Right"),
        ("05-1", 5_644_800, "a bias"),
        ("05-1", 14 * 14 * 36 * 401, "two operations"),
        ("05-1", 14 * 14 * 36 * 51, "16 numbers per place"),
        ("05-1", 1, "places × windows"),
        ("05-1", {}, "Give a number"),
        ("05-2", 0.3133, "Right"),
        ("05-2", 1.4612, "ten kinds"),
        ("05-2", 0, "1 and 0"),
        ("05-2", 5, "minus the logarithm"),
        ("05-2", "0", "Give a number"),
        ("05-3", trained("fit on NumPy arrays", val_loss=[2.0, 1.6]), "Right: 1.60"),
        ("05-3", trained("fit on NumPy arrays", val_loss=[0.3, 0.1]), "below what softmax twice allows"),
        ("05-3", trained("fit on NumPy arrays"), "at least two epochs"),
        ("05-3", 1.6, "what ways.fit returns"),
        ("06-1", 1025 * 1024, "Right"),
        ("06-1", 1024 * 1024, "a bias"),
        ("06-1", 4096, "How many come in"),
        ("06-1", None, "Not answered yet"),
        ("06-1", "1", "Give a number"),
        ("06-2", {"matrix": counts(), "class": "dog"}, "Right: of each hundred, 16 are recognised"),
        ("06-2", {"matrix": counts(), "class": "cat"}, "the one with the most"),
        ("06-2", {"matrix": counts(), "class": "ship"}, "sum of its row"),
        ("06-2", {"matrix": counts(), "class": "dogs"}, "one of airplane"),
        ("06-2", {"matrix": counts().tolist(), "class": "dog"}, "as the notebook made it"),
        ("06-2", "dog", "Give a dict"),
        ("06-3", 128 * 54_272, "Right"),
        ("06-3", 54_272, "one picture"),
        ("06-3", 5, "Add up the sizes"),
        ("06-3", "5", "Give a number"),
        ("07-1", 1.43, "Right"),
        ("07-1", 1.3, "100 s against 77 s"),
        ("07-1", 3.33, "70 % less"),
        ("07-1", 2, "Divide"),
        ("07-1", "2", "Give a number"),
        ("07-2", 19.5, "Right"),
        ("07-2", 6, "does not get faster"),
        ("07-2", 21, "Only what is not fixed"),
        ("07-2", 3, "Add what stays"),
        ("07-2", [], "Give a number of seconds"),
        ("07-3", 4, "Right"),
        ("07-3", 15, "the time in seconds"),
        ("07-3", 10, "only the fixed cost is left"),
        ("07-3", [], "Give a number"),
        ("08-1", 6, "Right"),
        ("08-1", 10, "one after the other"),
        ("08-1", 4, "not there yet"),
        ("08-1", 5, "Which of them ends last"),
        ("08-1", "6", "Give a number of milliseconds"),
        ("08-2", 8, "Right"),
        ("08-2", 7.5, "no half core"),
        ("08-2", 7, "30 / 7 ms"),
        ("08-2", 2, "Divide"),
        ("08-2", [], "Give a number of cores"),
        (
            "08-3",
            {"fit": trained(FIT), "best": trained("best")},
            "best way: too close to call (10 ms against 10 ms)",
        ),
        ("08-3", {"fit": trained(FIT), "best": trained(FIT)}, "what ways.fit trained"),
        ("08-3", {"fit": trained(FIT), "best": trained("best", steps=50)}, "the same examples"),
        ("08-3", {"fit": 1, "best": 2}, "as training.in_turn returns it"),
        ("08-3", {"fit": trained(FIT)}, "Give {'fit'"),
        ("10-1", 0.75, "Right"),
        ("10-1", 75, "Right"),
        ("10-1", 3, "That is the speed-up"),
        ("10-1", 0.25, "what is lost"),
        ("10-1", 1.33, "No share is above 1"),
        ("10-1", 0.333, "share of the time"),
        ("10-1", 12, "Divide the two times"),
        ("10-1", "75 %", "Give a number"),
        ("10-2", 175_000_000, "Right"),
        ("10-2", 175, "megabytes is not"),
        ("10-2", 100e6, "how large the gradients are"),
        ("10-2", 200e6, "7 of 8 pieces in each round"),
        ("10-2", 87.5e6, "must also come back"),
        ("10-2", 43.75e6, "A float32 has 4 bytes"),
        ("10-2", 1.4e9, "send together"),
        ("10-2", 25e6, "How many bytes are the gradients"),
        ("10-2", [], "Give a number of bytes"),
        (
            "10-3",
            {"one": replicated(1), "two": replicated(2, 0.10005, 0.5)},
            "Right: the losses are 0.1 and 0.1001. A step with 2 replicas: 2.0 times faster (5.0 ms against 10 ms).",
        ),
        ("10-3", {"two": replicated(2), "one": replicated(1)}, "too close to call (10 ms against 10 ms)"),
        ("10-3", {"one": replicated(2), "two": replicated(1)}, "You swapped them"),
        ("10-3", {"one": replicated(1), "two": replicated(1)}, "what two did (replicas.mirrored)"),
        ("10-3", {"one": trained(), "two": trained()}, "replicas.one"),
        ("10-3", {"one": replicated(1), "two": replicated(2, batch_size=20)}, "the same batch size"),
        ("10-3", {"one": replicated(1), "two": replicated(2, examples=20)}, "the same examples"),
        ("10-3", {"one": replicated(1), "two": replicated(2, 0.102)}, "0.1 and 0.102, but they should agree"),
        ("10-3", {"one": replicated(1), "two": replicated(2, float("nan"))}, "they should agree"),
        ("10-3", {"one": replicated(1), "two": replicated(2, None)}, "they should agree"),
        ("10-3", {"one": replicated(1), "two": replicated(4)}, "A step with 4 replicas"),
        (
            "10-3",
            {"one": replicated(1), "two": replace(replicated(2), epochs=trained().epochs)},
            "train for at least 5, the first",
        ),
        ("10-3", {"one": 1, "two": 2}, "as in_turn returns it"),
        ("10-3", {"one": replicated(1)}, "Give {'one'"),
        ("10-3", replicated(2), "Give {'one'"),
    ],
)
def test_each_answer_gets_the_reply_it_deserves(name, answer, words):
    """The reply names what to look at; only the right answer is right."""
    reply = exercises.check(name, answer)

    assert words in reply.words and words in repr(reply)
    assert reply.right == reply.words.startswith("Right")


def test_an_open_question_and_an_unknown_exercise_are_said_in_words():
    """The cell is run before it is answered."""
    assert exercises.check("01-1", ...).words.startswith("Not answered yet")
    assert "There is no exercise '99-9'. There are 00-1" in exercises.check("99-9", 1).words
    assert "no exercise" in exercises.check(None, 1).words


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.complex_numbers(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["float16", "size"]), inner) | st.tuples(inner)
    ),
    max_leaves=6,
)


@settings(deadline=None, max_examples=30)  # some checkers build a network to count with
@given(ANYTHING)
def test_no_answer_ever_raises(answer):
    """A student's slip must not end in a traceback."""
    for name in exercises._CHECKS:
        assert exercises.check(name, answer).words


def test_every_exercise_of_a_notebook_has_a_reply_and_the_other_way_round():
    """An exercise without a checker, or a checker without an exercise, is a leftover."""
    sources = "\n".join(cell.source for path in notebooks.find() for cell in notebooks.code_cells(notebooks.read(path)))

    assert all(f'exercises.check("{name}", answer)' in sources for name in exercises._CHECKS)
    assert sources.count(", answer)") == len(exercises._CHECKS)
