"""Decimal numbers and dates: evaluated while tracing, and guarded as far as they are used."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
import torch

import nbcompile
from tests.support.graphs import Graphs

UTC, EAST = dt.UTC, dt.timezone(dt.timedelta(hours=2))


class Zone(dt.tzinfo):
    asked = 0

    def utcoffset(self, when):
        Zone.asked += 1
        return dt.timedelta(hours=1)


def compiled(function, **options):
    graphs = Graphs()

    return nbcompile.compile(function, backend=graphs, **options), graphs


def branches(x, value):
    return x + 1 if value else x - 1


def compares(x, value, other):
    return x + 1, value == other, value != other, value < other, other in [1, value]


def is_a_key(x, value):
    return x + {Decimal(2): 5, 3: 7}.get(value, 0)


@pytest.mark.parametrize("pair", [(Decimal(0), Decimal("0.1")), (dt.timedelta(0), dt.timedelta(1))])
def test_truth_is_evaluated_and_guarded(pair):
    """A branch on a Decimal or a timedelta is one graph, and another value needs another graph."""
    function, graphs = compiled(branches, fullgraph=True)
    x = torch.zeros(1)
    for value in (*pair, pair[0]):
        assert function(x, value).tolist() == branches(x, value).tolist()
    assert len(graphs) == 2


@pytest.mark.parametrize(
    "pairs",
    [
        [(Decimal("1.5"), Decimal("1.50")), (Decimal("1.5"), Decimal(2)), (Decimal("1.5"), 1)],
        [(dt.date(2020, 1, 1), dt.date(2020, 1, 1)), (dt.date(2020, 1, 1), dt.date(2021, 1, 1))],
        [
            (dt.datetime(2020, 1, 1, 2, tzinfo=EAST), dt.datetime(2020, 1, 1, tzinfo=UTC)),
            (dt.datetime(2020, 1, 1, 3, tzinfo=EAST), dt.datetime(2020, 1, 1, tzinfo=UTC)),
        ],
    ],
)
def test_comparisons_are_evaluated_and_guarded(pairs):
    """Comparisons and membership are evaluated while tracing, and again for other values."""
    function, graphs = compiled(compares, fullgraph=True)
    x = torch.zeros(1)
    for pair in pairs:
        assert function(x, *pair)[1:] == compares(x, *pair)[1:]
    assert len(graphs) == len(pairs)


def test_a_number_of_another_kind_is_an_equal_key():
    """Decimal(3) finds the key 3, as in eager mode."""
    function, _ = compiled(is_a_key)
    for value in (Decimal(2), Decimal(3), Decimal(4)):
        assert function(torch.zeros(1), value).tolist() == is_a_key(torch.zeros(1), value).tolist()


def test_unused_values_are_not_guarded():
    """A value that the function only returns causes no recompile when it changes."""

    def handed_on(x, value):
        return x + 1, value

    function, graphs = compiled(handed_on)
    assert [function(torch.zeros(1), Decimal(k))[1] for k in range(3)] == [0, 1, 2]
    assert len(graphs) == 1


def test_a_time_zone_of_the_program_is_left_to_python():
    """A comparison of times runs the code of a user's time zone as often as in eager mode."""
    early, late = (dt.datetime(2020, 1, 1, hour, tzinfo=zone) for hour, zone in ((1, Zone()), (5, UTC)))

    def earlier(x):
        y = x + 1
        return y, early < late

    def asked(called):
        before = Zone.asked
        assert called(torch.zeros(1))[1] is True
        return Zone.asked - before

    function, _ = compiled(earlier)
    function(torch.zeros(1))
    assert asked(function) == asked(earlier) > 0


def test_an_order_that_does_not_exist_raises():
    """A comparison of a date and a number raises eager mode's exception."""

    def ordered(x):
        return x + 1, dt.date(2020, 1, 1) < 3  # noqa: SIM300

    function, _ = compiled(ordered)
    with pytest.raises(TypeError, match="not supported between instances of 'datetime.date' and 'int'"):
        function(torch.zeros(1))


@pytest.mark.parametrize(
    ("read", "values", "graphs_expected"),
    [
        (lambda x, v: x * v.days, [dt.timedelta(3), dt.timedelta(3, 5), dt.timedelta(4)], 2),
        (lambda x, v: x * v.year + v.month, [dt.date(2020, 1, 2), dt.date(2020, 1, 3), dt.date(2021, 1, 2)], 2),
        (lambda x, v: x * v.hour, [dt.datetime(2020, 1, 1, 2, tzinfo=EAST), dt.datetime(2020, 1, 1, tzinfo=UTC)], 2),
        (lambda x, v: x + 1 if v.tzinfo is None else -x, [dt.time(1), dt.time(2), dt.time(1, tzinfo=UTC)], 2),
        (lambda x, v: x + (v.real == 2), [Decimal(2), Decimal(3)], 2),
    ],
)
def test_an_attribute_alone_is_guarded(read, values, graphs_expected):
    """Values with the same attribute share a graph, if the function reads only that attribute."""
    function, graphs = compiled(read, fullgraph=True, dynamic=False)
    x = torch.ones(2)
    for value in (*values, values[0]):
        assert torch.equal(function(x, value), read(x, value))
    assert len(graphs) == graphs_expected
