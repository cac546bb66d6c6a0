// Conditions of guards, evaluated in the page as record/trees.py evaluates them in Python.
// Ints are BigInt, floats are number: 7n and 7.0 are equal, and // and % round down, as in Python.
"use strict";
const nbTrees = (() => {
  const finite = Number.isFinite;
  const isInt = v => typeof v === "bigint";
  const isNumber = v => ["bigint", "number", "boolean"].includes(typeof v);
  const number = v => (typeof v === "boolean" ? BigInt(v) : v);
  const fail = () => { throw new Error(); };  // where Python raises
  // A float that a too large int would become is an error in Python, too.
  const float = v => {
    if (!isInt(v)) return v;
    const made = Number(v);
    return finite(made) ? made : fail();
  };
  const floorInt = (a, b) => {
    const q = a / b;
    return a % b !== 0n && (a < 0n) !== (b < 0n) ? q - 1n : q;
  };
  const modFloat = (a, b) => {
    let r = a % b;
    if (r !== 0) { if ((b < 0) !== (r < 0)) r += b; } else r = b < 0 ? -0 : 0;
    return r;
  };
  const floorFloat = (a, b) => {
    const r = a % b;
    const q = (a - r) / b - (r !== 0 && (b < 0) !== (r < 0) ? 1 : 0);
    if (q === 0) return a / b < 0 || Object.is(a / b, -0) ? -0 : 0;
    const f = Math.floor(q);
    return q - f > 0.5 ? f + 1 : f;
  };
  const arithmetic = (ints, floats) => (x, y) => {
    const [a, b] = [number(x), number(y)];
    if (!isNumber(a) || !isNumber(b)) fail();
    return isInt(a) && isInt(b) ? ints(a, b) : floats(float(a), float(b));
  };
  const nonzero = (divide) => (a, b) => (b == 0 ? fail() : divide(a, b));
  // The quotient of two ints, rounded once: more bits than a float has, the last one standing for all that follow.
  const quotient = (a, b) => {
    const [x, y] = [a < 0n ? -a : a, b < 0n ? -b : b];
    const shift = BigInt(Math.max(0, y.toString(2).length - x.toString(2).length + 66));
    const bits = (x << shift) / y;
    const made = float((x << shift) % y ? bits | 1n : bits) * 2 ** -Number(shift);
    return (a < 0n) !== (b < 0n) ? -made : made;
  };
  // JavaScript compares BigInt with number by value, exactly, as Python compares int with float.
  const same = (x, y) => {
    if (isNumber(x) && isNumber(y)) return number(x) == number(y);
    return x === y;
  };
  const ordered = (compare) => (x, y) => {
    if (typeof x === "string" && typeof y === "string") return compare([...x], [...y], true);
    if (!isNumber(x) || !isNumber(y)) fail();
    return compare(number(x), number(y), false);
  };
  const points = (a, b) => {
    for (let i = 0; i < Math.min(a.length, b.length); i++) {
      const d = a[i].codePointAt(0) - b[i].codePointAt(0);
      if (d) return d;
    }
    return a.length - b.length;
  };
  const less = ordered((a, b, text) => (text ? points(a, b) < 0 : a < b));
  const atMost = ordered((a, b, text) => (text ? points(a, b) <= 0 : a <= b));
  const truth = v => (typeof v === "number" ? v !== 0 : Boolean(v));  // nan is true, as in Python
  const pick = (better) => (...values) => values.reduce((a, b) => (better(b, a) ? b : a));
  const power = (a, b) => {
    if (isInt(a) && isInt(b) && b >= 0n) return a ** b;
    if (a == 0 && b < 0) fail();
    const [x, y] = [float(a), float(b)];
    if (x === 1 || y === 0) return 1;
    if (x < 0 && finite(x) && finite(y) && !Number.isInteger(y)) fail();
    if (x === -1 && !finite(y) && y === y) return 1;
    const made = x ** y;
    return !finite(made) && finite(x) && finite(y) ? fail() : made;
  };
  const operators = {
    "+": arithmetic((a, b) => a + b, (a, b) => a + b),
    "-": arithmetic((a, b) => a - b, (a, b) => a - b),
    "*": arithmetic((a, b) => a * b, (a, b) => a * b),
    "//": arithmetic(nonzero(floorInt), nonzero(floorFloat)),
    "%": arithmetic(nonzero((a, b) => a - floorInt(a, b) * b), nonzero(modFloat)),
    "/": arithmetic(nonzero(quotient), nonzero((a, b) => a / b)),
    "**": (x, y) => (isNumber(x) && isNumber(y) ? power(number(x), number(y)) : fail()),
    "neg": x => (isNumber(x) ? -number(x) : fail()),
    "not": x => !truth(x),
    "==": same, "!=": (x, y) => !same(x, y),
    "<": less, "<=": atMost, ">": (x, y) => less(y, x), ">=": (x, y) => atMost(y, x),
    "is": (x, y) => x === y, "is not": (x, y) => x !== y,  // null, true and false
    "same": (x, y) => Object.is(x, y) && x === x,  // 1 and 1.0 differ by type, 0.0 and -0.0 by sign; nan is never the same
    "min": pick(less), "max": pick((x, y) => less(y, x)),
    "abs": x => { const v = isNumber(x) ? number(x) : fail(); return v < 0 || Object.is(v, -0) ? -v : v; },
    "isnan": x => (isNumber(x) ? float(number(x)) !== float(number(x)) : fail()),
  };
  const floats = { inf: Infinity, "-inf": -Infinity, nan: NaN };
  // A value as record/trees.py writes it: {"int": "7"}, {"float": "0.5"} or {"value": true}.
  const constant = (tree) => {
    if ("int" in tree) return BigInt(tree.int);
    if ("float" in tree) return tree.float in floats ? floats[tree.float] : Number(tree.float);
    return tree.value;
  };
  const evaluate = (tree, environment) => {
    if ("read" in tree) return tree.read in environment ? environment[tree.read] : fail();
    if (!("op" in tree)) return constant(tree);
    if (tree.op === "and" || tree.op === "or") {
      let value = null;
      for (const each of tree.of) {
        value = evaluate(each, environment);
        if (truth(value) === (tree.op === "or")) return value;
      }
      return value;
    }
    return operators[tree.op](...tree.of.map((each) => evaluate(each, environment)));
  };
  return { constant, evaluate };
})();
if (typeof module !== "undefined") module.exports = nbTrees;
