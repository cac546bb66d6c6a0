"""Every documented behaviour of graph breaks, guards and shapes has a test, or a reason for having none."""

from nbcompile.sphinx_ext.behaviours import behaviours

LAST = {
    "GB": 3, "FG": 19, "CB": 20, "NT": 10, "CO": 3, "FF": 2, "WA": 10, "DI": 8, "NG": 9, "SK": 19, "SF": 3, "EG": 13,
    "NS": 12, "FN": 18, "CC": 29, "RC": 20, "DC": 16, "DR": 24, "BU": 4, "ZO": 3, "BB": 1, "AC": 2, "DT": 3, "GE": 21,
    "CT": 4, "GO": 7, "SG": 4,
}  # fmt: skip
NOT_TESTED = {
    "GB-1": "the order of chapters in torch's documentation",
    "FG-5": "advice on which escape hatch to choose",
    "CO-1": "shown by FG-11", "CO-2": "advice",
    "FF-1": "advice", "FF-2": "the order of chapters",
    "WA-1": "advice", "WA-2": "distributed wrappers", "WA-6": "about torch's own samples",
    "DI-3": "a mistake in torch's documentation",
    "SF-3": "an API that torch 2.13 does not have; its rules are those of EG",
    "NS-2": "a statement about both kinds of tracing", "NS-4": "advice", "NS-9": "as NS-1 and NS-8",
    "NS-11": "where torch uses it", "NS-12": "the name of a file",
    "FN-13": "settings of Inductor and of C slots", "FN-17": "distributed, CUDA graphs and artifacts",
    "FN-18": "names that torch 2.13 does not have",
    "DC-11": "a setting that torch 2.13 does not have", "GE-16": "a name that torch 2.13 does not have",
    "DR-5": "advice", "DR-19": "advice", "BU-3": "advice for authors of operators", "GO-7": "advice",
    "DR-7": "the words of a log; what is remembered between processes is DR-6", "DR-8": "distributed",
    "DR-24": "the order of a log", "GE-4": "settings of a log", "CT-4": "tests/fast/disk_cache",
    "ZO-2": "a statement about torch.export", "BB-1": "an index of chapters", "AC-2": "as DR-7, DR-8, DR-19 to 24",
    "GO-1": "events of torch's profiler", "GO-2": "parameters are always inputs here (tests/test_config.py)",
    "GO-5": "the guard tree decides by itself (tests/test_config.py)",
    "SG-1": "a design, of which torch 2.13 has nothing", "SG-2": "as SG-1", "SG-3": "as SG-1", "SG-4": "as SG-1",
}  # fmt: skip


def test_every_behaviour_is_tested_or_explained():
    """Each id of sections 2 to 16 and 19 to 31 has a test or a reason for having none."""
    tested = {name for each in behaviours() for name in each.ids}
    wanted = {f"{prefix}-{number}" for prefix, last in LAST.items() for number in range(1, last + 1)}
    assert wanted - tested - set(NOT_TESTED) == set()


def test_each_test_says_what_is_documented():
    """Each row of the table has a text, and an outcome, with a reason where it differs from torch."""
    for each in behaviours():
        assert each.says, each.ids
        assert each.outcome == "holds" or len(each.outcome) > 15, each.ids
