"""The parts of a step: each from its own experiments, never as the rest of a sum."""

import pytest

from helpers import anatomy, datasets, models
from helpers.errors import ParameterError
from helpers.tasks import Task

pytestmark = pytest.mark.alone

MEDIANS = {
    ("network", 64): 100.0,
    ("nothing", 1): 20.0,
    ("nothing", 64): 55.0,
    ("network", 1): 30.0,
    ("loop", 64): 25.0,
    ("loop", 1): 5.0,
    ("metrics", 1): 3.0,
    ("moving", 64): 2.0,
}


def test_each_part_comes_from_its_own_experiments():
    """Known times give known parts; what they leave over is shown."""
    found = anatomy._parts(MEDIANS, 64, rounds=7)

    assert found.parts == {
        "Python and Keras": 17.0,
        "waiting for metrics": 3.0,
        "input and shuffling": 35.0,
        "launching operations": 10.0,
        "moving the batch": 2.0,
        "arithmetic": 20.0,
    }
    assert found.unexplained == 13.0 and found.unexplained_share == pytest.approx(0.13)
    assert found.rounds == 7


def test_the_whole_is_measured_on_its_own():
    """A slower whole is unexplained; it changes no part."""
    slower = anatomy._parts({**MEDIANS, ("network", 64): 200.0}, 64, rounds=7)

    assert slower.parts == anatomy._parts(MEDIANS, 64, rounds=7).parts
    assert slower.unexplained_share == pytest.approx(0.565)


def test_no_part_is_negative():
    """Two experiments of the same length can come out the wrong way round."""
    found = anatomy._parts({**MEDIANS, ("loop", 64): 4.9}, 64, rounds=1)

    assert found.parts["arithmetic"] == 0.0


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"rounds": 0}, {"batch_sizes": [0]}, {"batch_sizes": [101]}])
def test_wrong_numbers_are_refused_before_anything_is_measured(wrong):
    """A batch larger than the data would be measured under the wrong name."""
    task = Task(datasets.two_clouds(100), models.two_clouds, "binary_crossentropy", 0.1)

    with pytest.raises(ParameterError, match="is not possible"):
        anatomy.dissect(task, **{"batch_sizes": [10], "steps": 2, **wrong})


def test_a_real_step_is_taken_apart():
    """All parts are there; with a network that does nothing, the data still costs; a CPU moves nothing."""
    task = Task(datasets.two_clouds(20_000), models.two_clouds, "binary_crossentropy", 0.1, ("accuracy",))

    anatomies = anatomy.dissect(task, batch_sizes=[100, 2000], steps=10, device="CPU:1", rounds=3)

    assert list(anatomies) == [100, 2000]
    for found in anatomies.values():
        assert tuple(found.parts) == anatomy.PARTS
        assert found.parts["moving the batch"] == 0.0
        named = ("Python and Keras", "waiting for metrics", "input and shuffling")
        assert all(0 < found.parts[name] < found.whole for name in named)
