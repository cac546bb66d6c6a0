"""The table of planted faults in docs/design/planted_faults.md, and the command that writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.diagnose import fault_table, faults

PAGE = Path(__file__).parents[3] / "docs" / "design" / "planted_faults.md"


def test_one_fault(tmp_path, capsys):
    """A fault that all three tools find is a row of the output and of the page; the exit code is 0."""
    page = tmp_path / "page.md"
    assert fault_table.main(["sin raises", "-o", str(page)]) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| sin raises")]
    assert "lowering: sin (aten.sin.default)" in row
    assert "11 operators → 1" in row
    assert page.read_text() == f"{fault_table.HEAD}{row}\n"


def test_a_fault_that_is_not_found(monkeypatch, capsys):
    """If a tool names another decision, the exit code is 1, and the fault is named."""
    fault = next(fault for fault in faults.FAULTS if fault.name == "sin raises")
    elsewhere = faults.Fault("misnamed", fault.plant, fault.program, "lowering", "cosh", fault.rung)
    monkeypatch.setattr(fault_table, "FAULTS", (elsewhere,))
    assert fault_table.main([]) == 1
    assert "not found by all three: misnamed" in capsys.readouterr().err


def test_no_such_fault(capsys):
    """An unknown fault is rejected, with exit code 2."""
    with pytest.raises(SystemExit) as end:
        fault_table.main(["moth"])
    assert end.value.code == 2
    assert "there is no fault moth" in capsys.readouterr().err


def test_the_page_has_every_fault():
    """The recorded table has each fault, found by each tool."""
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")][1:]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == [fault.name for fault in faults.FAULTS]
    assert not any(cell == "nothing" for row in rows for cell in row.split(" | "))
