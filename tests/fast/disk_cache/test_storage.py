"""A file that a process cannot read now is passed over; only what is damaged is thrown away."""

from __future__ import annotations

import errno
import os
import resource
import warnings

import pytest

from nbcompile import config, errors
from nbcompile.fast.disk_cache import storage
from nbcompile.runtime import store

KEY = "0123456789abcdef01234567"


@pytest.fixture
def entry(tmp_path, monkeypatch):
    """The path of an entry with its record, in a store of its own."""
    monkeypatch.setenv(storage.VARIABLE, str(tmp_path / "frames"))
    monkeypatch.setattr(storage, "_warned", set())
    assert storage.add(KEY, {"guards": []}, {"frame": 1})
    [(path, content)] = storage.entries(KEY)
    assert content == {"guards": []}
    return path


def read_with_a_warning(path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        content = storage.read(path)
    return content, [str(each.message) for each in caught if issubclass(each.category, errors.StoreWarning)]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EACCES, errno.EIO])
def test_an_error_of_the_process_leaves_the_file(entry, number, monkeypatch):
    """The warning gives the reason, once; when the reason is gone the entry is used."""

    def refuse(path, most):
        raise OSError(number, os.strerror(number), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(store, "read", refuse)
        content, said = read_with_a_warning(entry)
        assert content is None
        assert said == [f"{entry} is not used in this process: {os.strerror(number)}"]
        assert read_with_a_warning(entry) == (None, [])
    assert storage.read(entry) == {"guards": []}
    assert storage.record(entry) == {"frame": 1}


def test_no_descriptor_is_left(entry):
    """The real thing: a program with too many open files keeps its entries."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        found = storage.read(entry)
    except Warning:
        found = None  # pytest makes errors of warnings
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert found is None
    assert storage.read(entry) == {"guards": []}


@pytest.mark.parametrize("content", [b"", b"no checksum", b"0" * 64 + b"\n{}"])
def test_damage_is_thrown_away(entry, content):
    """It would be met at each start."""
    entry.write_bytes(content)
    found, said = read_with_a_warning(entry)
    assert found is None
    assert said == [f"{entry} is damaged: it is not used, and what it held is compiled again"]
    assert not entry.exists()


def test_a_lower_limit_is_no_damage(entry):
    """What is larger than the limit of the cache by itself is read all the same, and removed when entries are added."""
    with config.patch(warm_start_megabytes=0), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert storage.read(entry) == {"guards": []}
