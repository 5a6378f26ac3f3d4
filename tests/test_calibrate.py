"""Constants from measurements: recovered where they are known, and measured for real once."""

import json
import math
from types import SimpleNamespace

import pytest

from helpers import calibrate, costs, devices, probes, results, work
from helpers.costs import Costs, Formula
from helpers.pieces import KINDS, Piece, stream

TRUE_HOSTS = {
    "fit": calibrate.Host(1e-6, 2e-3, 5e-5, 0.03, 1e-7, 3e-9),
    "steps_per_execution": calibrate.Host(1e-6, 1e-4, 0.0, 0.01, 2e-8, 1e-9),
    "resident": calibrate.Host(2e-6, 3e-5, 0.0, 0.001, 1e-8, 0.0),
}
PRODUCT = Formula(5e-6, 1e-11, (1e-10, 2e-10, 5e-10))
PLAIN = Formula(0.0, 0.0, (5e-10, 5e-10))
FRESH = 2e-9  # more for each value of a large result
EAGER = 2e-5  # what Python takes to start any operation


@pytest.fixture(scope="module")
def made_up(tf):
    """A record of a machine whose constants are known, with the sizes that `measure` takes."""
    rows = [_row(probe.piece) for probe in probes.of(devices.find("CPU:0"))]
    plain = Costs(0.0, {kind: PRODUCT if "product" in kind or "convol" in kind else PLAIN for kind in KINDS})
    for way, host in TRUE_HOSTS.items():
        for depth, steps, count in calibrate.TINY:
            model = calibrate.stack(depth) if depth else calibrate.wide()
            asked = work.of(model, count, fused_adam=calibrate.WAYS[way].fused_adam)
            step = host.per_step + host.per_variable * asked.variables + host.per_value * asked.input_values
            step += host.per_row * count
            rows_too = [calibrate.rows_of(asked)] if way == "resident" else []
            step += asked.starts * host.start + plain.total([*asked.pieces, *rows_too]).total
            seconds = host.per_epoch + steps * step
            rows.append({"way": way, "depth": depth, "steps": steps, "rows": count, "values": [seconds] * 3})
    return {
        "device": {"name": "made up", "used": "CPU:0", "kind": "CPU"},
        "machine": {"memory_bytes": 2**34},
        "measurements": rows,
    }


def _row(piece: Piece) -> dict:
    if "product" in piece.kind:
        seconds = PRODUCT.seconds(piece).total
    elif "convolution" in piece.kind:
        seconds = Formula(5e-6, 2e-11, (1e-10, 2e-10, 5e-10, 3e-10)).seconds(piece).total
    else:
        seconds = PLAIN.seconds(piece).total
    seconds += FRESH * piece.result * (piece.result > costs.FRESH)
    return {"piece": piece.kind, "flop": piece.flop, "sizes": list(piece.sizes), "values": [EAGER + seconds] * 3}


def test_what_python_adds_to_an_operation_is_not_counted_as_its_work(made_up):
    """A product costs what its formula says, whatever the call around it took."""
    found = calibrate.read(made_up).costs.kinds["product"]

    for piece in (Piece("product", 1, 2e9, (1e6, 1e6, 1e6)), Piece("product", 1, 4e6, (2000, 2e6, 1000))):
        assert math.isclose(found.seconds(piece).total, PRODUCT.seconds(piece).total, rel_tol=0.15)


def test_the_hosts_constants_are_those_that_explain_all_tiny_trainings(made_up):
    """Depths tell a start or a variable, numbers of steps an epoch, wide rows a value."""
    found = calibrate.read(made_up).hosts

    for way, true in TRUE_HOSTS.items():
        assert math.isclose(found[way].per_epoch, true.per_epoch, rel_tol=0.05, abs_tol=1e-3)
        assert math.isclose(found[way].per_step, true.per_step, rel_tol=0.15)
        assert math.isclose(found[way].start, true.start, rel_tol=0.2)
        assert math.isclose(found[way].per_row, true.per_row, rel_tol=0.2)
        assert math.isclose(found[way].per_value, true.per_value, rel_tol=0.2, abs_tol=1e-10)
    assert math.isclose(found["fit"].per_variable, TRUE_HOSTS["fit"].per_variable, rel_tol=0.1)


def test_large_results_cost_what_fresh_memory_costs(made_up):
    """The largest copy is the only one that shows it; all kinds take it over, but not what works in place."""
    kinds = calibrate.read(made_up).costs.kinds
    large = stream(2 * costs.FRESH, 2 * costs.FRESH)

    assert math.isclose(kinds["product"].per_fresh, FRESH, rel_tol=0.05)
    fresh, in_place = (kinds["stream"].seconds(piece).total for piece in (large, large._replace(in_place=True)))
    assert math.isclose(fresh - in_place, FRESH * large.result, rel_tol=0.05)


def test_a_convolution_is_at_best_a_product(made_up):
    """No fit may claim that arithmetic costs a convolution less than a product of the same size."""
    kinds = calibrate.read(made_up).costs.kinds

    assert kinds["convolution"].per_flop >= kinds["product"].per_flop > 0


def test_a_machine_whose_speed_changes_gets_wider_intervals(made_up):
    """The spread of repeated values goes into the spread of predictions."""
    shaky = {**made_up, "measurements": [_shaken(row) for row in made_up["measurements"]]}

    assert calibrate.read(made_up).spread_all == 0
    assert 0.2 < calibrate.read(shaky).spread_all < 0.4


def _shaken(row: dict) -> dict:
    middle = row["values"][0]
    return {**row, "values": [middle * factor for factor in (0.6, 0.8, 1.0, 1.2, 1.4)]}


def test_on_a_gpu_a_start_hides_behind_the_work_before_it(made_up):
    """There the time of an operation is that of its work, or that of its start, and not their sum."""
    on_gpu = {**made_up, "device": {"name": "made up", "used": "GPU:0", "kind": "GPU"}}
    large = stream(6e6, 6e6)

    found = calibrate.read(on_gpu).costs

    assert math.isclose(found.kinds["stream"].seconds(large).total, EAGER + PLAIN.seconds(large).total, rel_tol=0.01)
    assert found.kinds["stream"].seconds(stream(2000, 2000)).total <= calibrate.LEAST
    assert found.overlap and found.turn


@pytest.mark.parametrize(
    "fault",
    [
        lambda rows: [row for row in rows if row.get("piece") != "pool"],
        lambda rows: rows[:-1],
        lambda rows: [*rows[:-1], {**rows[-1], "depth": 10**7}],
        lambda rows: [{**row, "sizes": row["sizes"][:1]} if "piece" in row else row for row in rows],
        lambda rows: [{**row, "piece": "unheard"} if row.get("piece") == "sum" else row for row in rows],
    ],
    ids=["lacks a kind", "cut off", "a network of ten million layers", "lacks sizes", "unknown kind"],
)
def test_a_record_that_is_no_whole_calibration_is_refused(made_up, fault):
    """It may have been cut off, or come from anywhere: nothing is guessed, and nothing built from it."""
    with pytest.raises(ValueError, match="is not complete"):
        calibrate.read({**made_up, "measurements": fault(made_up["measurements"])})


def test_the_shipped_calibration_can_be_read_and_is_plausible():
    """It is what readers get who have not calibrated their machine."""
    found = calibrate.reference()

    assert set(found.hosts) == set(calibrate.WAYS) and set(found.costs.kinds) == set(KINDS)
    assert found.hosts["fit"].per_step > found.hosts["steps_per_execution"].per_step
    assert 1e10 < 1 / found.costs.kinds["product"].per_flop < 1e13
    assert 0.02 < found.spread_all < 0.6


def test_no_network_of_the_course_is_among_the_probes(tf):
    """What is predicted must not have been looked up."""
    from helpers import workloads

    calibrated = {probe.piece[2:4] for probe in probes.of(devices.find("CPU:0"))}
    for workload in workloads.KNOWN.values():
        model = workload.model()
        for batch in (1, 8, 32, 128, 512, 2048):
            pieces = work.of(model, batch).pieces
            assert not {piece[2:4] for piece in pieces if piece.flop > 1e5} & calibrated


@pytest.mark.long
def test_a_calibration_is_measured_and_kept_as_a_record(tf, tmp_path):
    """The record alone gives the same constants again."""
    settings = SimpleNamespace(results_dir=tmp_path, devices=[devices.find("CPU:0")], preset="quick", seed=0)

    found = calibrate.measure(settings, seconds=0.002, rounds=2)

    (path,) = tmp_path.glob("calibration--CPU0--*.json")
    table, problems = results.read(tmp_path)
    assert not problems and len(table) == len(probes.of(devices.find("CPU:0"))) + 15
    assert calibrate.read(json.loads(path.read_text())) == found
    assert found.place == "CPU:0" and all(host.per_step >= 0 for host in found.hosts.values())
