"""One moving line while work takes longer than a few seconds, and nothing of it afterwards.

In a notebook the line is a display that is updated and then cleared: no widget, and no carriage return
that would stay in the stored outputs. Elsewhere it is tqdm's usual line on stderr.
"""

import io
import sys
from collections.abc import Iterable

from tqdm import tqdm


class _NotebookLine(tqdm):
    """tqdm with its text in a notebook's display; clears the cell's output when it is done."""

    def __init__(self, *args, **options):
        from IPython.display import display

        self._shown = display({"text/plain": ""}, raw=True, display_id=True)
        super().__init__(*args, file=io.StringIO(), **options)

    def display(self, msg=None, pos=None):
        """Show the line as it stands; tqdm calls this, at most every `mininterval` seconds."""
        self._shown.update({"text/plain": msg or str(self)}, raw=True)

    def close(self):
        if not self.disable:
            from IPython.display import clear_output

            self.disable = True
            clear_output()


def progress(items: Iterable, label: str, **options) -> tqdm:
    """Yield the items one by one behind a moving line: what is done, how long it took, how much is left.

    Use it in a cell of its own: clearing the line clears whatever else the cell has shown.
    """
    line = _NotebookLine if _in_notebook() else tqdm
    return line(items, desc=label, leave=False, ncols=80, mininterval=0.5, **options)


def _in_notebook() -> bool:
    return "ipykernel" in sys.modules and "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None
