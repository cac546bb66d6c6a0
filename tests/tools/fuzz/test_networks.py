"""Training programs of a seed."""

from __future__ import annotations

from nbcompile.tools.fuzz import networks, oracle


def test_a_seed_is_a_program():
    """A seed determines the text, another seed gives another one, and it is valid Python."""
    assert networks.generate("1") == networks.generate("1")
    assert networks.generate("1").source != networks.generate("2").source
    compile(networks.generate("1").source, "<test>", "exec")


def test_adams_step_is_not_traced():
    """If the whole step is compiled, Adam-like optimizers run between the calls."""
    found = [networks.generate(str(seed)).source for seed in range(60)]
    whole = [text for text in found if "step = compiled(step)" in text]
    adam = [text for text in whole if "optimizer = torch.optim.Adam" in text]
    assert adam
    assert not any("        if optimizer: optimizer.step()" in text for text in adam)
    assert any("        if optimizer: optimizer.step()" in text for text in whole)


def test_eager_plays_it():
    """Results, losses and optimizer state are observed after each step; eager mode runs each seed."""
    for seed in range(3):
        played = oracle.play(networks.generate(str(seed)), lambda function: function)
        assert played.error is None
        assert len(played.seen) >= 2
