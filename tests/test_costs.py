"""What pieces cost: formulas by hand, their fit, curves, and how starts and work come together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.costs import FRESH, Costs, Curve, Formula, Seconds, fit_formula
from helpers.pieces import Piece, product, small, stream

PRODUCT = Formula(constant=5.0, per_flop=2.0, per_value=(1.0, 10.0, 100.0))
amounts = st.floats(0, 1e6)


def test_a_formula_by_hand():
    """(1, 2) @ (2, 3): 12 flop; 2, 6 and 3 values."""
    found = PRODUCT.seconds(product(1, 2, 3))

    assert found == Seconds(start=5, compute=2 * 12, memory=1 * 2 + 10 * 6 + 100 * 3)
    assert found.total == 5 + 24 + 362


def test_a_formula_takes_all_sizes_of_a_piece():
    """One size forgotten would be a cost forgotten."""
    with pytest.raises(ValueError, match="longer"):
        PRODUCT.seconds(Piece("convolution", 1, 12, (2, 6, 3, 9)))


def test_a_small_piece_is_not_shared_among_threads():
    """So it does not pay for that more than it takes."""
    formula = Formula(5.0, 0.0, (1.0, 1.0))

    assert formula.seconds(small(1)) == Seconds(2, 0, 2)
    assert formula.seconds(stream(4, 4)) == Seconds(5, 0, 8)


@given(amounts, amounts, st.tuples(amounts, amounts), amounts, st.tuples(amounts, amounts))
def test_the_constant_is_never_more_than_the_rest(constant, per_flop, per_value, flop, sizes):
    """And no part is negative."""
    found = Formula(constant, per_flop, per_value).seconds(Piece("stream", 1, flop, sizes))

    assert 0 <= found.start <= found.compute + found.memory
    assert min(found.compute, found.memory) >= 0


KNOWN = Formula(3e-6, 2e-11, (4e-10, 3e-10, 9e-10))
ROWS = [product(m, k, n) for m, k, n in [(50, 60, 70), (500, 20, 90), (30, 800, 40), (900, 900, 900), (60, 50, 2000)]]
ROWS += [product(m, m, m) for m in (60, 100, 300)]  # for all, the constant is less than the rest


def test_the_fit_finds_the_constants_that_made_the_rows():
    """Small and large products, thin and wide ones."""
    rows = [(piece, KNOWN.seconds(piece).total) for piece in ROWS]

    found = fit_formula(rows, per_fresh=7.0)

    assert found.constant == pytest.approx(KNOWN.constant, rel=0.01)
    assert found.per_flop == pytest.approx(KNOWN.per_flop, rel=0.01)
    assert found.per_value == pytest.approx(KNOWN.per_value, rel=0.01)
    assert found.per_fresh == 7.0


def test_every_relative_error_counts_alike_in_a_fit():
    """A large product that is off by a half does not outweigh all the small ones."""
    rows = [(piece, KNOWN.seconds(piece).total * (1.5 if piece.flop > 1e9 else 1)) for piece in ROWS]

    found = fit_formula(rows)

    ratios = sorted(found.seconds(piece).total / seconds for piece, seconds in rows)
    assert max(abs(ratio - 1) for ratio in ratios[1:-1]) < 0.2


def test_arithmetic_costs_at_least_what_the_peak_allows():
    """Where the rows cannot tell it from the values, the fit may not call it free."""
    rows = [(piece, 1e-6 + 1e-9 * sum(piece.sizes)) for piece in ROWS]

    free, bounded = fit_formula(rows), fit_formula(rows, least_per_flop=1e-11)

    assert free.per_flop < 1e-14
    assert bounded.per_flop >= 1e-11 * (1 - 1e-9)
    assert min(bounded.constant, *bounded.per_value) >= 0


CURVE = Curve((10, 1000, 4000), (1.0, 100.0, 200.0))


def test_a_curve_lies_on_its_points_and_straight_between_on_a_scale_of_magnitudes():
    """100 lies halfway from 10 to 1000, and so does its time; 2000 halfway from 1000 to 4000."""
    seconds = [CURVE.seconds(stream(values / 2, values / 2)) for values in (10, 1000, 4000, 100, 2000)]

    assert [found.total for found in seconds] == pytest.approx([1, 100, 200, 10, 2**0.5 * 100])
    assert all((found.start, found.compute) == (0, 0) for found in seconds)


def test_a_curve_goes_on_in_proportion_at_both_ends():
    """Half the smallest takes half the time; nothing takes none."""
    seconds = [CURVE.seconds(stream(values, 0)).total for values in (0, 5, 8000, 40000)]

    assert seconds == pytest.approx([0, 0.5, 400, 2000])


@given(
    st.lists(st.tuples(st.floats(1.1, 50), st.floats(1.0, 50)), min_size=1, max_size=6),
    st.lists(st.floats(0, 1e9), min_size=2, max_size=8),
)
def test_a_curve_through_rising_times_never_falls(steps, values):
    """More values never take less time."""
    points = [(1.0, 1e-6)]
    for wider, longer in steps:
        points.append((points[-1][0] * wider, points[-1][1] * longer))
    curve = Curve(*zip(*points, strict=True))

    seconds = [curve.seconds(stream(value, 0)).total for value in sorted(values)]

    assert all(after >= before * (1 - 1e-9) for before, after in zip(seconds, seconds[1:], strict=False))


@pytest.mark.parametrize("cost", [Formula(0.0, 0.0, (1.0, 1.0), per_fresh=3.0), Curve((1, 2), (1.0, 2.0), 3.0)])
def test_a_result_in_fresh_memory_costs_more(cost):
    """Only one that is too large for the C library's own memory, and needs memory at all."""
    kept, fresh = stream(8, FRESH), stream(7, FRESH + 1)

    assert cost.seconds(kept).total == FRESH + 8
    assert cost.seconds(fresh).total == FRESH + 8 + 3 * (FRESH + 1)
    assert cost.seconds(fresh._replace(in_place=True)).total == FRESH + 8
    assert cost.seconds(fresh._replace(kind="update")).total == FRESH + 8


KINDS = {"stream": Formula(1.0, 0.0, (1.0, 0.0)), "loop": Formula(0.0, 0.0, (0.0, 0.0))}  # 1 s each, shared in 1 s


@pytest.mark.parametrize(("values", "seconds"), [(1, 7 + 1 + 1), (3, 7 + 1 + 3), (50, 7 + 1 + 50)])
def test_a_cpu_starts_and_then_computes(values, seconds):
    """The thread that starts the next operation waits for this one."""
    found = Costs(7.0, KINDS).seconds(stream(values, 1, starts=2))

    assert found == Seconds(2 * (7 + 1), 0, 2 * values)
    assert found.total == 2 * seconds


@pytest.mark.parametrize(("values", "seconds"), [(1, 7), (3, 7), (6, 7), (7, 8), (50, 51)])
def test_a_gpu_computes_while_the_next_operation_is_started(values, seconds):
    """The larger of both decides."""
    found = Costs(7.0, KINDS, overlap=True).seconds(stream(values, 1, starts=2))

    assert found.total == 2 * seconds
    assert found.memory == 2 * values


@pytest.mark.parametrize("overlap", [False, True])
def test_operations_of_a_loop_have_a_start_of_their_own(overlap):
    """A library may run the loop by itself; without `turn` they start as any other."""
    piece = Piece("loop", 10, 0, (0, 0))
    own, same = (Costs(7.0, KINDS, overlap, turn) for turn in (0.5, None))

    assert own.seconds(piece._replace(looped=True)).total == 10 * 0.5
    assert own.seconds(piece).total == 10 * 7
    assert same.seconds(piece._replace(looped=True)).total == 10 * 7


def test_the_total_is_the_sum_of_all_pieces_part_by_part():
    """Of a generator, too; of no pieces it is nothing."""
    costs = Costs(7.0, KINDS)

    found = costs.total(stream(values, 1) for values in (2, 3))

    assert found == Seconds(8 + 8, 0, 2 + 3)
    assert costs.total([]) == Seconds()
