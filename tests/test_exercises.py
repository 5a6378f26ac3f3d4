"""Answers to exercises: the right one is right, a slip gets a hint, and nothing ever raises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import exercises, machine, notebooks
from helpers.comparing import Line
from helpers.devices import Device
from helpers.timing import Measurement
from helpers.training import Training

CPU = Device("CPU", 0)


def by_type(**changed) -> dict:
    rows = {name: Measurement(name, CPU, 1.0, (1.0,) * 7) for name in ("float16", "float32", "float64")}
    return rows | changed


LINE = Line(2e-3, 2e-6, (1e-3, 3e-3), (1e-6, 3e-6))
FLAT = Line(2e-3, 0.0, (1e-3, 3e-3), (0.0, 1e-6))
STEEP = Line(0.0, 2e-6, (0.0, 1e-3), (1e-6, 3e-6))


def trained(way="XLA, data by column", steps=100, final=None) -> Training:
    final = final or {"accuracy": 0.975, "loss": 0.1}
    epochs = Measurement(way, CPU, 1.0, (1.0,) * 3)
    return Training(way, epochs, steps, 10, {"loss": [0.1] * 4}, final, {})


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
