"""The data: exactly the question's, and pictures that can be learnt from."""

import numpy as np
import pytest

from helpers import datasets
from helpers.errors import NotEnoughMemoryError, ParameterError


def test_two_clouds_are_the_numbers_of_the_question():
    """NumPy's global generator with seed 0, both coordinates of the first cloud, then of the second."""
    state = np.random.get_state()
    np.random.seed(0)
    first = np.array([np.random.normal(13, 2, 50), np.random.normal(12, 2, 50)]).T
    second = np.array([np.random.normal(8, 2, 50), np.random.normal(6, 2, 50)]).T
    np.random.set_state(state)

    cloud = datasets.two_clouds(100, "float64")

    assert cloud.x.dtype == cloud.y.dtype == "float64"
    assert np.array_equal(cloud.x, np.vstack((first, second)))
    assert np.array_equal(cloud.y, np.append(np.zeros(50), np.ones(50))[:, None])


def test_two_clouds_come_at_the_published_size_as_float32():
    """A million points, and the same numbers, rounded."""
    cloud = datasets.two_clouds()

    assert cloud.x.shape == (1_000_000, 2) and cloud.y.shape == (1_000_000, 1)
    assert cloud.x.dtype == cloud.y.dtype == "float32"
    assert np.array_equal(cloud.x, datasets.two_clouds(1_000_000, "float64").x.astype("float32"))
    assert cloud.x.mean(axis=0) == pytest.approx([10.5, 9], abs=0.01)
    assert cloud.about == {"name": "two_clouds", "source": cloud.source, "stand_in": False}


@pytest.mark.parametrize("points", [0, -2, 7, 10.0, "10", True, None])
def test_clouds_of_impossible_size_are_refused(points):
    """Both clouds have the same number of points."""
    with pytest.raises(ParameterError, match="even whole number"):
        datasets.two_clouds(points)


@pytest.mark.parametrize("make", [datasets.two_clouds, datasets.road_images])
def test_data_that_does_not_fit_is_refused_before_it_is_made(make):
    """In words, with how much it needs."""
    with pytest.raises(NotEnoughMemoryError, match=r"CPU:0 needs [\d,.]+ GB"):
        make(10**12)


def test_a_sample_keeps_points_and_labels_together():
    """Rows are drawn from everywhere, none twice, always the same with the same seed."""
    cloud = datasets.two_clouds(1000)

    part = cloud.sample(200, seed=1)

    label_of = {tuple(point): label for point, label in zip(cloud.x, cloud.y[:, 0], strict=True)}
    assert len({tuple(point) for point in part.x}) == len(part) == 200
    assert all(label_of[tuple(point)] == label for point, label in zip(part.x, part.y[:, 0], strict=True))
    assert 50 < part.y.sum() < 150
    assert np.array_equal(part.x, cloud.sample(200, seed=1).x)
    assert not np.array_equal(part.x, cloud.sample(200, seed=2).x)
    with pytest.raises(ParameterError, match=r"1001 examples cannot be drawn from 1,000\."):
        cloud.sample(1001)


@pytest.mark.parametrize("count", [0, -1, "3", 2.5, True, None])
def test_numbers_that_are_no_counts_are_refused(count):
    """Before NumPy says something about shapes."""
    with pytest.raises(ParameterError, match="cannot be made"):
        datasets.road_images(count)
    with pytest.raises(ParameterError, match="cannot be drawn"):
        datasets.two_clouds(10).sample(count)


def test_clouds_of_whole_numbers_are_refused():
    """They would lose their fractions without a word."""
    with pytest.raises(ParameterError, match="'float32' and 'float64'"):
        datasets.two_clouds(10, "int8")


def test_road_images_show_where_the_road_goes():
    """Near the horizon, the middle of the road lies to the side that is to be learnt."""
    roads = datasets.road_images(50, seed=3)

    assert roads.x.shape == (50, 66, 200, 3) and roads.y.shape == (50, 1)
    assert roads.x.dtype == roads.y.dtype == "float32"
    assert roads.x.min() >= 0 and roads.x.max() <= 1 and np.abs(roads.y).max() <= 1
    is_grey = np.ptp(roads.x[:, 3], axis=-1) < 0.02  # in the fields, green is stronger than red and blue
    middle = (is_grey * np.arange(200)).sum(axis=1) / is_grey.sum(axis=1)
    assert np.corrcoef(middle, roads.y[:, 0])[0, 1] > 0.98
    assert np.array_equal(roads.x, datasets.road_images(50, seed=3).x)
    assert not np.array_equal(roads.x, datasets.road_images(50, seed=4).x)
