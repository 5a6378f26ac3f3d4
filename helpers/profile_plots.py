"""Pictures of profiles; the rules are those of `plots`."""

from collections.abc import Iterable

from matplotlib.patches import Patch

from helpers.errors import ParameterError
from helpers.profiles import Interval, Profile
from helpers.training_plots import INKS

REST = "#a8a8a8"
WORKING, WAITING = "#bcd9ea", "#222222"


def timeline(profile: Profile, ax, *, steps: int | None = None, seconds: Interval | None = None):
    """Draw what ran against time (ms): input above, operations below; white is time in which nothing ran.

    Drawn is the whole call, or its first `steps` steps (each from one request for a batch to the next), or the
    time from one second to another: `seconds=(0, 0.1)`. The four kinds of operation that took longest have a
    colour each. Where several ran at once, the one that began last covers the others.
    """
    start, end = _window(profile, steps, seconds)
    inks = dict(zip((row.kind for row in profile.by_kind()), INKS, strict=False))
    shown = sorted((o for o in profile.operations if o.end > start and o.start < end), key=lambda o: o.start)
    _strip(ax, 0, profile.input_work, WORKING)
    _strip(ax, 0, profile.waiting, WAITING)
    _strip(ax, 1, ((o.start, o.end) for o in shown), [inks.get(o.kind, REST) for o in shown])
    names = {kind: ink for kind, ink in inks.items() if any(o.kind == kind for o in shown)}
    if any(o.kind not in inks for o in shown):
        names["other operations"] = REST
    if profile.input_work:
        names |= {"input at work": WORKING, "waiting for input": WAITING}
    ax.set(xlabel="time since the call began (ms)", xlim=(start * 1e3, end * 1e3))
    ax.set(yticks=(0, 1), yticklabels=("input", "operations"), ylim=(1.5, -0.5))
    ax.grid(visible=False)
    handles = [Patch(color=ink, label=name) for name, ink in names.items()]
    ax.legend(handles=handles, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1), fontsize=8)
    return ax


def _strip(ax, place: int, intervals: Iterable[Interval], colours) -> None:
    bars = [(start * 1e3, (end - start) * 1e3) for start, end in intervals]
    # Bars of less than a pixel must fade, not vanish or grow: no snapping to pixels.
    ax.broken_barh(bars, (place - 0.35, 0.7), facecolors=colours, linewidth=0, snap=False)


def _window(profile: Profile, steps: int | None, seconds: Interval | None) -> Interval:
    """Return the part of the call to draw, in seconds."""
    if steps is None:
        start, end = seconds or (0.0, profile.seconds)
        if not 0 <= start < end:
            raise ParameterError(
                f"seconds = {seconds!r} is no part of the call.",
                f"Accepted are a start and a later end, from 0 to {profile.seconds:.3g} s.",
                "Correct seconds, or leave it away to draw the whole call.",
            )
        return start, end
    starts = [start for start, _ in profile.requests] + [profile.seconds]
    if not 1 <= steps < len(starts) or seconds:
        raise ParameterError(
            f"{steps} steps cannot be drawn: the call asked for {len(starts) - 1} batches.",
            "Accepted are 1 to that many steps, and then no seconds.",
            "Give fewer steps; where the data lies on the device, give seconds=(start, end) instead.",
        )
    return starts[0], starts[steps]
