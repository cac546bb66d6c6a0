"""Settings with what they do."""

from __future__ import annotations

from nbcompile import config
from nbcompile.tools import settings


def test_every_setting_has_a_sentence():
    """The docstring below it; one of torch's that means nothing here says why."""
    found = {each.name: each for each in settings.meanings()}
    assert found.keys() == set(config.names())
    assert all(each.text.strip() for each in found.values())
    assert all(found[name].text.startswith("No effect: ") for name in config.NO_EFFECT)


def test_a_listing_shows_values_and_defaults():
    """The default only where the value is another one."""
    shown = repr(settings.Listing({"recompile_limit": 3, "verbose": config.DEFAULTS["verbose"]}))
    assert f"recompile_limit = 3  (default: {config.DEFAULTS['recompile_limit']})" in shown
    assert "verbose = False\n" in shown


def test_a_listing_without_differences_says_how_to_see_all():
    """As a mapping it is empty."""
    assert "--all" in repr(settings.Listing({})) and dict(settings.Listing({})) == {}
