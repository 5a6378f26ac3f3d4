"""Checks of answers to the exercises of notebook 08. Each returns a hint, or a right `Reply`."""

from collections.abc import Callable, Mapping

from helpers import ways
from helpers.comparing import Comparison
from helpers.replies import Reply, number
from helpers.training import Training


def _prepared_ahead(answer) -> Reply | str:
    given = number(answer)
    if given is None:
        return "Give a number of milliseconds."
    if given == 6:
        return Reply(True, "Right: both happen at the same time, and the slower decides. The device still waits 2 ms.")
    if given == 10:
        return "That is one after the other. Prepared ahead, a batch is made while the device computes with the last."
    if given == 4:
        return "The device cannot compute with a batch that is not there yet."
    return "Two things happen at the same time. Which of them ends last?"


def _cores_to_feed(answer) -> Reply | str:
    given = number(answer)
    if given is None:
        return "Give a number of cores."
    if given == 8:
        return Reply(True, "Right. With 7 cores a batch would come every 4.3 ms, so the GPU would wait a little.")
    if given == 7.5:
        return "There is no half core. Will 7 do?"
    if given == 7:
        return "7 cores make a batch every 30 / 7 ms. Is that less than 4 ms?"
    return "Together, the cores must make a batch in the time that a step takes. Divide."


def _fit_and_best(answer) -> Reply | str:
    wanted = "Give {'fit': …, 'best': …}, as training.in_turn returns it for runs under these two names."
    if not isinstance(answer, Mapping) or set(answer) != {"fit", "best"}:
        return wanted
    fit, best = answer["fit"], answer["best"]
    if not isinstance(fit, Training) or not isinstance(best, Training):
        return wanted
    if fit.way != ways.fit.label or best.way == fit.way:
        return "Under 'fit' belongs what ways.fit trained, under 'best' what ways.best(task) trained."
    if [fit.examples, fit.batch_size, fit.epochs.device] != [best.examples, best.batch_size, best.epochs.device]:
        return "To be compared, both need the same examples, the same batch size and the same device."
    verdict = Comparison(fit.step, best.step).verdict
    return Reply(True, f"Right. A step of the best way: {verdict} ({best.step.shown} against {fit.step.shown}).")


CHECKS: dict[str, Callable] = {"08-1": _prepared_ahead, "08-2": _cores_to_feed, "08-3": _fit_and_best}
