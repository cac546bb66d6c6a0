"""The fit of the polynomials in nbcompile/codegen/nbvec.h: python tests/codegen/fit_polynomials.py

Each is fitted in 50 digits at Chebyshev nodes, re-weighted until the error is
level (Lawson's iteration), and its coefficients rounded to float32 one after
the other, the rest being fitted again after each.
"""

import mpmath as mp
import numpy as np

mp.mp.dps = 50


def fit(name, function, low, high, powers, weight=lambda x: mp.mpf(1), fixed=(), nodes=80, single=True):
    """Fit sum(c[p] * x**p) to the function, with the error weighted; print C++ literals, highest power first."""
    points = [
        mp.mpf(low + high) / 2 + mp.mpf(high - low) / 2 * mp.cos(mp.pi * (2 * k + 1) / (2 * nodes))
        for k in range(nodes)
    ]
    target = [function(x) for x in points]
    known = {}
    for power in sorted(powers):
        free = [each for each in sorted(powers) if each not in known]
        emphasis = [mp.mpf(1)] * nodes
        best = None
        for _ in range(25):
            matrix = mp.matrix(nodes, len(free))
            right = mp.matrix(nodes, 1)
            for row, x in enumerate(points):
                scale = weight(x) * mp.sqrt(emphasis[row])
                for column, each in enumerate(free):
                    matrix[row, column] = scale * x**each
                right[row] = scale * (target[row] - sum(c * x**p for p, c in known.items()))
            solution = mp.lu_solve(matrix, right)
            errors = [
                abs(
                    weight(x)
                    * (
                        sum(solution[c] * x**p for c, p in enumerate(free))
                        + sum(c * x**p for p, c in known.items())
                        - t
                    )
                )
                for x, t in zip(points, target)
            ]
            worst = max(errors)
            if best is None or worst < best[0]:
                best = (worst, solution)
            emphasis = [e * (error / worst + mp.mpf("1e-3")) for e, error in zip(emphasis, errors)]
            total = sum(emphasis)
            emphasis = [e / total * nodes for e in emphasis]
        value = best[1][0]
        known[power] = mp.mpf(float(np.float32(float(value)))) if single else mp.mpf(float(value))
    print(f"{name}: error {mp.nstr(best[0], 3)}")
    print(
        "   ",
        ", ".join(
            f"{float(known[p]):.9g}f" if single else f"{float(known[p])!r}" for p in sorted(powers, reverse=True)
        ),
        flush=True,
    )
    return known


LN2 = mp.log(2)
if __name__ == "__main__":
    # exp(r) = 1 + r + r^2 * P(r), |r| <= ln2 / 2
    fit("exp, expm1", lambda r: (mp.exp(r) - 1 - r) / r**2, -LN2 / 2, LN2 / 2, range(5), lambda r: r**2)
    # 2**r = 1 + r * P(r), |r| <= 1/2
    fit("exp2", lambda r: (2**r - 1) / r, mp.mpf(-0.5), mp.mpf(0.5), range(6), lambda r: abs(r))
    # log(1 + f) = f - f^2/2 + f^3 * P(f)
    fit(
        "log",
        lambda f: (mp.log(1 + f) - f + f * f / 2) / f**3,
        mp.sqrt(0.5) - 1,
        mp.sqrt(2) - 1,
        range(8),
        lambda f: abs(f**3 / mp.log(1 + f)),
    )
    # tanh(x) = x + x^3 * P(x^2), |x| <= 0.625
    fit(
        "tanh",
        lambda s: (mp.tanh(mp.sqrt(s)) / mp.sqrt(s) - 1) / s,
        mp.mpf("1e-9"),
        mp.mpf(0.625) ** 2,
        range(5),
        lambda s: s,
    )
    # erf(x) = x + x * P(x^2), |x| <= 0.9
    fit("erf, inner", lambda s: mp.erf(mp.sqrt(s)) / mp.sqrt(s) - 1, mp.mpf("1e-9"), mp.mpf(0.9) ** 2, range(6))
    # erf(x) = 1 - exp(x * P(x)), 0.9 <= x <= 4
    fit(
        "erf, outer",
        lambda x: mp.log(mp.erfc(x)) / x,
        mp.mpf(0.9),
        mp.mpf(4),
        range(8),
        lambda x: x * mp.erfc(x) / mp.erf(x),
    )

    # ndtr(-a) = exp(-a^2 / 2) * P(t) / (a + 4), t = (a - 4) / (a + 4), 0 <= a <= 13.6
    def beyond(t):
        a = 4 * (1 + t) / (1 - t)
        return mp.erfc(a / mp.sqrt(2)) / 2 * mp.exp(a * a / 2) * (a + 4)

    fit("ndtr", beyond, -1, mp.mpf(9.6) / mp.mpf(17.6), range(10), lambda t: 1 / beyond(t))
    # sin(x) = x + x^3 * P(x^2); cos(x) = 1 - x^2/2 + x^4 * P(x^2), |x| <= pi/4
    quarter = (mp.pi / 4) ** 2
    fit("sin", lambda s: (mp.sin(mp.sqrt(s)) / mp.sqrt(s) - 1) / s, mp.mpf("1e-9"), quarter, range(4), lambda s: s)
    fit("cos", lambda s: (mp.cos(mp.sqrt(s)) - 1 + s / 2) / s**2, mp.mpf("1e-9"), quarter, range(4), lambda s: s * s)
    # float64
    fit(
        "exp, float64", lambda r: (mp.exp(r) - 1 - r) / r**2, -LN2 / 2, LN2 / 2, range(10), lambda r: r**2, single=False
    )
    fit(
        "tanh, float64",
        lambda s: (mp.tanh(mp.sqrt(s)) / mp.sqrt(s) - 1) / s,
        mp.mpf("1e-9"),
        mp.mpf(0.625) ** 2,
        range(13),
        lambda s: s,
        single=False,
    )
    fit(
        "log, float64",
        lambda z: (mp.log((1 + mp.sqrt(z)) / (1 - mp.sqrt(z))) / mp.sqrt(z) - 2) / z,
        mp.mpf("1e-9"),
        (3 - 2 * mp.sqrt(2)) ** 2 * mp.mpf("1.001"),
        range(7),
        lambda z: z,
        single=False,
    )

    # f(x) = x + x^3 * P(x^2): atan to 1 and to tan(pi/8), asin to 1/2, sin and cos to pi/4
    def odd(function):
        return lambda s: (function(mp.sqrt(s)) / mp.sqrt(s) - 1) / s

    small = mp.mpf("1e-9")
    fit("atan", odd(mp.atan), small, mp.mpf(1), range(8), lambda s: s / (mp.atan(mp.sqrt(s)) / mp.sqrt(s)))
    fit("asin", odd(mp.asin), small, mp.mpf("0.25"), range(5), lambda s: s)
    # pow of float32, through float64: 37 and 34 bits
    fit("pow, exp", lambda r: (mp.exp(r) - 1 - r) / r**2, -LN2 / 2, LN2 / 2, range(6), lambda r: r**2, single=False)
    fit(
        "pow, log",
        lambda z: (mp.log((1 + mp.sqrt(z)) / (1 - mp.sqrt(z))) / mp.sqrt(z) - 2) / z,
        small,
        (3 - 2 * mp.sqrt(2)) ** 2 * mp.mpf("1.001"),
        range(4),
        lambda z: z,
        single=False,
    )
    fit("asin, float64", odd(mp.asin), small, mp.mpf("0.25"), range(13), lambda s: s, single=False)
    fit("atan, float64", odd(mp.atan), small, mp.tan(mp.pi / 8) ** 2, range(11), lambda s: s, single=False)
    fit("sin, float64", odd(mp.sin), small, quarter, range(7), lambda s: s, single=False)
    fit(
        "cos, float64",
        lambda s: (mp.cos(mp.sqrt(s)) - 1 + s / 2) / s**2,
        small,
        quarter,
        range(6),
        lambda s: s * s,
        single=False,
    )
    # the normal distribution up to 39, erf up to 1, and a logarithm less its first two terms in (x - 1) / (x + 1)
    fit("ndtr, float64", beyond, -1, mp.mpf(35) / 43, range(24), lambda t: 1 / beyond(t), single=False)
    fit("erf, float64", lambda s: mp.erf(mp.sqrt(s)) / mp.sqrt(s) - 1, small, mp.mpf(1), range(12), single=False)
    fit(
        "pow, log, float64",
        lambda z: ((mp.log((1 + mp.sqrt(z)) / (1 - mp.sqrt(z))) / mp.sqrt(z) - 2) / z - mp.mpf(2) / 3) / z,
        small,
        (3 - 2 * mp.sqrt(2)) ** 2 * mp.mpf("1.001"),
        range(8),
        single=False,
    )

    # lgamma(2 + u) / u, and x times the remainder of Stirling's formula
    def near_two(u):
        return mp.loggamma(2 + u) / u if u else mp.psi(0, 2)

    def lacking(s):
        x = 1 / mp.sqrt(s)
        return (mp.loggamma(x) - (x - mp.mpf(0.5)) * mp.log(x) + x - mp.log(2 * mp.pi) / 2) * x

    for single, near, beyond_it in ((True, 9, 2), (False, 18, 6)):
        low, high = mp.mpf("-0.65"), mp.mpf("0.35")
        fit("lgamma", near_two, low, high, range(near), lambda u: 1 / near_two(u), single=single)
        fit("lgamma, series", lacking, small, 1 / mp.mpf(7.5) ** 2, range(beyond_it), single=single)

    def share(w):
        """erfinv(y) / y, where w = -log(1 - y^2): Newton's iteration on the smaller of erf and erfc."""
        y = mp.sqrt(-mp.expm1(-w))
        beyond_y = mp.exp(-w) / (1 + y)
        x = y if y < 0.5 else mp.sqrt(mp.mpf("0.1") + max(0, -mp.log(beyond_y) - 1))
        for _ in range(100):
            missing = y - mp.erf(x) if y < 0.5 else mp.erfc(x) - beyond_y
            step = missing * mp.sqrt(mp.pi) / 2 * mp.exp(x * x)
            step /= 1 + abs(x * step)  # a start value for the iteration
            x += step
        return x / y

    def through(shift, root):
        return lambda v: share((v + shift) ** 2 if root else v + shift)

    for name, low, high, shift, root, terms, single in (
        ("erfinv", small, 5, 2.5, False, 10, True),
        ("erfinv, far", mp.sqrt(5), 4, 3, True, 10, True),
        ("erfinv, float64", small, 6.25, 3.125, False, 24, False),
        ("erfinv, far, float64", 2.5, 4, 3.25, True, 20, False),
        ("erfinv, farther, float64", 4, 6.01, 5, True, 18, False),
    ):
        function = through(mp.mpf(shift), root)
        bounds = mp.mpf(low) - shift, mp.mpf(high) - shift
        fit(name, function, *bounds, range(terms), lambda v, f=function: 1 / f(v), single=single)
