"""The settings, with their descriptions."""

from __future__ import annotations

from nbcompile import config
from nbcompile.tools import settings


def test_every_setting_has_a_sentence():
    """Each setting has a description, and one of torch's without an effect here has a reason."""
    found = {each.name: each for each in settings.meanings()}
    assert found.keys() == set(config.names())
    assert all(each.text.strip() for each in found.values())
    assert all(found[name].text.startswith("No effect: ") for name in config.NO_EFFECT)


def test_a_listing_shows_values_and_defaults():
    """The default is shown only if the value differs."""
    shown = repr(settings.Listing({"recompile_limit": 3, "verbose": config.DEFAULTS["verbose"]}))
    assert f"recompile_limit = 3  (default: {config.DEFAULTS['recompile_limit']})" in shown
    assert "verbose = False\n" in shown


def test_a_listing_without_differences_says_how_to_see_all():
    """An empty listing says how to list all settings; as a mapping it is empty."""
    assert "--all" in repr(settings.Listing({})) and dict(settings.Listing({})) == {}
