"""A report: one document with anchors."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from bs4 import BeautifulSoup

from nbcompile.views.report import Section, anchor, of_record, page
from tests.views import sample_records

RECORDS = {"simple": sample_records.simple, "nested": sample_records.nested, "recompiled": sample_records.recompiled,
           "skipped": sample_records.skipped, "empty": sample_records.empty}  # fmt: skip


@pytest.mark.parametrize("name", RECORDS)
def test_links_lead_somewhere(name):
    """Each link of the contents is an id of the page, and ids are unique, also with two records of one function."""
    record = RECORDS[name]()
    drawn = BeautifulSoup(page("Two", [Section("one", record), Section("two", record)]), "html.parser")
    ids = [element["id"] for element in drawn.select("[id]")]
    assert len(ids) == len(set(ids))
    links = [link["href"].removeprefix("#") for link in drawn.select("nav a")]
    assert len(links) == 2 + 2 * len(record.frames)
    assert set(links) - set(ids) == set()


def test_frames_with_one_id_have_addresses_of_their_own():
    """Calls beyond the recompile limit share an id, and have separate anchors."""
    record = sample_records.simple()
    twice = replace(record, frames=(record.frames[0],) * 2)
    ids = re.findall(r'id="(s0-[^"]*)"', of_record(twice))
    assert len(ids) == len(set(ids)) and anchor(0, record.frames[0].id) in ids


def test_an_address_is_made_of_harmless_characters():
    """An anchor has only safe characters, whatever the record's id is."""
    assert anchor(3, "0/1", "guards") == "s3-0.1-guards"
    assert re.fullmatch(r"[\w.-]+", anchor(0, "a b'\"<>#?"))


def test_texts_of_the_user_are_texts():
    """Title, words, code and output are escaped; blank lines separate paragraphs, empty parts are omitted."""
    hostile = "<script>alert(1)</script>"
    drawn = BeautifulSoup(
        page(hostile, [Section(hostile, prose=f"{hostile}\n\n\n\nsecond", code=hostile, output=hostile)]), "html.parser"
    )
    assert not any("alert" in script.text for script in drawn.select("script"))
    assert drawn.find("h1").text == drawn.find("h2").text == drawn.select_one(".out").text == hostile
    assert [paragraph.text for paragraph in drawn.select(".prose p")] == [hostile, "second"]
    assert drawn.select("nav") == [], "a page with one place to go to"
    bare = BeautifulSoup(page("t", [Section("s")]), "html.parser")
    assert bare.select(".prose, .out, section pre") == []
