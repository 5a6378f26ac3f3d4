"""Settings for every test, those of the notebooks included."""

import os
import tempfile

import pytest

RESULTS = pytest.StashKey[tempfile.TemporaryDirectory]()


def pytest_configure(config):
    """Make notebooks small, keep their records out of the project, and never use the network."""
    results = config.stash[RESULTS] = tempfile.TemporaryDirectory(prefix="course-tests-")
    os.environ |= {"COURSE_PRESET": "quick", "COURSE_OFFLINE": "1", "COURSE_RESULTS": results.name}


def pytest_unconfigure(config):
    config.stash[RESULTS].cleanup()


def pytest_collectstart(collector):
    """Leave stderr out of the comparison: TensorFlow's log lines come and go below Python."""
    if hasattr(collector, "skip_compare"):  # a notebook, as nbval sees it
        collector.skip_compare += ("stderr",)
