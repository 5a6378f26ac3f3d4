"""The one family of errors that a user can cause and put right.

Each says three things: what was wrong, what is accepted, what to do next.
"""


class CourseError(Exception):
    """A mistake that the reader can put right; a notebook shows its words without a traceback."""

    def __init__(self, wrong: str, accepted: str, next_step: str):
        super().__init__(wrong, accepted, next_step)

    def __str__(self) -> str:
        return " ".join(self.args)

    def _render_traceback_(self) -> list[str]:
        """Replace IPython's page of traceback with the words alone."""
        return [f"{type(self).__name__}: {self}"]


class DeviceError(CourseError):
    """A device that does not exist, or a result that was computed somewhere else."""


class NotEnoughMemoryError(CourseError):
    """Work that does not fit into the memory that is free on its device."""


class ParameterError(CourseError):
    """A value that a parameter or an argument does not accept."""


class RecordError(CourseError):
    """A result record that cannot be written."""


class DataError(CourseError):
    """A data file that is damaged, is something else, or cannot be fetched."""


class TrainingError(CourseError):
    """Training that cannot start, or whose loss is no longer a number."""


class ClusterError(CourseError):
    """Workers that train together and are not all there: one never came, ended, or cannot be reached."""
