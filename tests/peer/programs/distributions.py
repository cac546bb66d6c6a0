"""torch.distributions, random numbers and their state."""

import torch
from torch import distributions as D

from tests.peer.program import program

ones, arange = torch.ones, torch.arange


@program()
def normal_log_prob():
    def f(mu, sigma, x):
        d = D.Normal(mu, sigma)
        return d.log_prob(x), d.entropy(), d.mean, d.variance

    return f, [(torch.zeros(3), ones(3), arange(3.0))]


@program()
def normal_rsample():
    def f(mu, sigma):
        return D.Normal(mu, sigma).rsample((2,))

    return f, [(torch.zeros(3), ones(3))]


@program()
def normal_sample_and_validation_off():
    def f(mu):
        d = D.Normal(mu, 1.0, validate_args=False)
        a = d.sample()
        return d.log_prob(a).exp()

    return f, [(torch.zeros(3),)]


@program()
def categorical():
    def f(logits):
        d = D.Categorical(logits=logits, validate_args=False)
        a = d.sample()
        return a, d.log_prob(a), d.entropy(), d.probs

    return f, [(arange(6.0).reshape(2, 3),)]


@program()
def bernoulli():
    def f(p):
        d = D.Bernoulli(probs=p)
        return d.log_prob(d.sample()), d.mean

    return f, [(ones(3) * 0.5,)]


@program()
def independent_normal():
    def f(mu, x):
        return D.Independent(D.Normal(mu, torch.ones_like(mu)), 1).log_prob(x)

    return f, [(torch.zeros(2, 3), ones(2, 3))]


@program()
def multivariate_normal():
    def f(mu, x):
        return D.MultivariateNormal(mu, torch.eye(3)).log_prob(x)

    return f, [(torch.zeros(3), ones(3))]


@program()
def uniform_beta_gamma():
    def f(x):
        return (
            D.Uniform(0.0, 1.0).log_prob(x),
            D.Beta(x + 1, 2.0).mean,
            D.Gamma(x + 1, x + 2).log_prob(x + 0.5),
            D.Exponential(x + 1).log_prob(x),
        )

    return f, [(ones(3) * 0.5,)]


@program()
def transformed_distribution():
    def f(x):
        d = D.TransformedDistribution(D.Normal(torch.zeros(3), torch.ones(3)), [D.transforms.TanhTransform()])
        return d.log_prob(x)

    return f, [(ones(3) * 0.5,)]


@program()
def distribution_as_an_argument():
    def f(d, x):
        return d.log_prob(x)

    return f, [(D.Normal(torch.zeros(3), ones(3)), ones(3))]


@program()
def mixture():
    def f(x):
        mix = D.Categorical(torch.ones(2))
        comp = D.Normal(torch.zeros(2), torch.ones(2))
        return D.MixtureSameFamily(mix, comp).log_prob(x)

    return f, [(ones(3),)]


# -- random state ----------------------------------------------------------------------------


@program()
def manual_seed_inside():
    def f(x):
        torch.manual_seed(3)
        return x + torch.rand(3)

    return f, [(ones(3),), (ones(3),)]


@program()
def rng_state_is_kept():
    def f(x):
        state = torch.get_rng_state()
        a = torch.rand(3)
        torch.set_rng_state(state)
        return x + a - torch.rand(3)

    return f, [(ones(3),)]


@program()
def fork_rng():
    def f(x):
        with torch.random.fork_rng(devices=[]):
            a = torch.rand(3)
        return x + a + torch.rand(3)

    return f, [(ones(3),)]


@program()
def random_generator_as_an_argument():
    def f(x, g):
        return x + torch.rand(3, generator=g)

    def call(compiled):
        return compiled(ones(3), torch.Generator().manual_seed(1))

    return f, [call, call]


@program()
def random_functions():
    def f(x):
        return (
            torch.randn_like(x),
            torch.randint(0, 5, (3,)),
            torch.randperm(4),
            x.bernoulli(0.5),
            torch.normal(x, 1.0),
            x.uniform_(),
        )

    return f, [(ones(3),)]


@program()
def dropout_functions():
    def f(x):
        return torch.nn.functional.dropout(x, 0.5, training=True), torch.dropout(x, 0.3, True), torch.multinomial(x, 2)

    return f, [(ones(5),)]


@program()
def sampled_through_new_sizes():
    """``rate.new(shape)``: a size is not data."""

    def f(x):
        made = (D.Exponential(x.exp()), D.Laplace(x, x.exp()), D.Cauchy(x, x.exp()), D.Pareto(x.exp(), x.exp() + 1))
        return [(d.sample().shape, d.log_prob(x.exp() + 3)) for d in made]

    return f, [(arange(3.0),)]


@program()
def distributions_of_shapes_that_broadcast():
    def f(x):
        z = D.MultivariateNormal(x, torch.eye(3))
        return z.mean, D.Gumbel(x, x.exp()).mean, D.Normal(x, 1.0).expand((2, 3)).stddev

    return f, [(arange(3.0),)]
