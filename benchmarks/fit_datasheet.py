"""Fit the constants that no datasheet gives to published measurements, and write helpers/datasheet.toml anew.

Every source is also left out once, and predicted by what the others say. About two minutes.
"""

import math
import statistics
from collections import Counter

from helpers import datasheet, literature

NOISE = math.log(1.6)  # the factor by which a published figure may well be off: load, clocks, an unnamed build
HEAD = "\n# Written by benchmarks/fit_datasheet.py.\n"


def fit(figures, prior: dict) -> dict[str, float]:
    """Return the constants that are closest to both the figures and the prior.

    A source with many figures counts as three: they share what is wrong with all of them.
    """
    import numpy as np
    from scipy.optimize import least_squares

    names = list(prior)
    first = np.log([prior[name][0] for name in names])
    doubt = np.log([prior[name][1] for name in names])
    count = Counter(figure.source for figure in figures)
    weights = np.array([min(1.0, math.sqrt(3 / count[figure.source])) for figure in figures])

    def misfit(logarithms):
        constants = dict(zip(names, np.exp(logarithms), strict=True))
        errors = [math.log(figure.predicted(constants) / figure.measured) / NOISE for figure in figures]
        return np.concatenate([weights * errors, (logarithms - first) / doubt])

    found = least_squares(misfit, first, loss="soft_l1", diff_step=1e-3).x
    return {name: float(f"{value:.4g}") for name, value in zip(names, np.exp(found), strict=True)}


def spread(errors: list[float]) -> float:
    """Return a standard deviation of logarithms that four of five figures agree with, whatever the rest do."""
    middle = sorted(abs(error) for error in errors)[math.ceil(0.8 * len(errors)) - 1]
    return float(f"{middle / statistics.NormalDist().inv_cdf(0.9):.3g}")


def main() -> None:
    figures = literature.figures()
    text = datasheet.FILE.read_text(encoding="utf-8").partition(HEAD)[0].rstrip() + "\n"
    prior = datasheet.tomllib.loads(text)["prior"]
    tables = {"fitted": fit(figures, prior)}
    blind = []
    for source in literature.sources():
        others = fit([figure for figure in figures if figure.source != source], prior)
        tables[f'without."{source}"'] = others
        blind += [(figure, figure.predicted(others)) for figure in figures if figure.source == source]
    errors = {kind: [math.log(p / f.measured) for f, p in blind if f.device.kind == kind] for kind in ("gpu", "cpu")}
    errors["ratio"] = [math.log(expected / measured) for _, _, measured, expected in literature.pairs(blind)]
    tables["spread"] = {kind: spread(values) for kind, values in errors.items()}
    for name, table in tables.items():
        text += (HEAD if name == "fitted" else "") + f"\n[{name}]\n"
        text += "".join(f"{key} = {value!r}\n" for key, value in table.items())
    datasheet.FILE.write_text(text, encoding="utf-8")
    for kind, values in errors.items():
        within = sum(abs(value) <= math.log(2) for value in values) / len(values)
        middle = math.exp(statistics.median(values))
        print(f"{kind:6} {len(values):3} figures, {within:.0%} within a factor of 2, median ratio {middle:.2f}")


if __name__ == "__main__":
    main()
