// Conditions of guards, evaluated in the page as record/trees.py evaluates them in Python.
// Ints are BigInt, floats are number: 7n and 7.0 are equal, and // and % round down, as in Python.
const finite = Number.isFinite, isInt = v => typeof v === "bigint", isText = v => typeof v === "string";
const isNumber = v => isInt(v) || typeof v === "number";
const fail = () => { throw 0; };  // where Python raises
// Truth values count, and nothing else does.
const number = v => v === !!v ? BigInt(v) : isNumber(v) ? v : fail();
// A float that a too large int would become is an error in Python, too.
const real = v => isInt(v) && !finite(Number(v)) ? fail() : Number(v);
const arithmetic = (ints, floats = ints) => (x, y) => {
  const a = number(x), b = number(y);
  return isInt(a) && isInt(b) ? ints(a, b) : floats(real(a), real(b));
};
const nonzero = divide => (a, b) => b == 0 ? fail() : divide(a, b);
const division = (...kinds) => arithmetic(...kinds.map(nonzero));

// The remainder has the sign of the divisor, and so has its zero.
const mod = (a, b) => {
  const r = a % b;
  return r ? r < 0 === b < 0 ? r : r + b : b < 0 ? -r * r : r * r;
};
const floor = (a, b) => {
  const r = a % b, q = (a - r) / b - (r && r < 0 !== b < 0 ? 1 : 0), f = Math.floor(q);
  return q ? q - f > 0.5 ? f + 1 : f : q === 0 ? 1 / (a / b) < 0 ? -0 : 0 : q;
};
// The quotient of two ints, rounded once: more bits than a float has, the last one represents all that follow (a sticky bit).
const quotient = (a, b) => {
  const [x, y] = [a, b].map(v => v < 0n ? -v : v), bits = v => v.toString(2).length;
  const shift = BigInt(Math.max(0, bits(y) - bits(x) + 66)), wide = x << shift;
  const made = real(wide / y | BigInt(wide % y > 0n)) * 2 ** -Number(shift);
  return a < 0n === b < 0n ? made : -made;
};
const power = (a, b) => a === 1 || a === -1 && !finite(b) && b === b ? 1 : finite(a) && finite(b) && !finite(a ** b) ? fail() : a ** b;

// JavaScript compares BigInt with number by value, exactly, as Python compares int with float; texts by code points.
const same = (x, y) => isText(x) === isText(y) && x == y;
const key = v => isText(v) ? [...v].map(each => each.codePointAt().toString(36).padStart(4, 0)).join() : number(v);
const ordered = compare => (x, y) => isText(x) === isText(y) ? compare(key(x), key(y)) : fail();
const less = ordered((a, b) => a < b), atMost = ordered((a, b) => a <= b), more = (x, y) => less(y, x);
const truth = v => v !== v || !!v;  // nan is true, as in Python
const pick = better => (...values) => values.reduce((a, b) => better(b, a) ? b : a);
const operators = {
  "+": arithmetic((a, b) => a + b),
  "-": arithmetic((a, b) => a - b),
  "*": arithmetic((a, b) => a * b),
  "//": division((a, b) => (a - mod(a, b)) / b, floor),
  "%": division(mod),
  "/": division(quotient, (a, b) => a / b),
  "**": arithmetic((a, b) => b < 0n ? power(real(a), real(b)) : a ** b, power),
  neg: x => -number(x),
  not: x => !truth(x),
  "==": same, "!=": (x, y) => !same(x, y),
  "<": less, "<=": atMost, ">": more, ">=": (x, y) => atMost(y, x),
  is: (x, y) => x === y, "is not": (x, y) => x !== y,  // null, true and false
  same: (x, y) => Object.is(x, y) && x === x,  // 1 and 1.0 differ by type, 0.0 and -0.0 by sign; nan is never the same
  min: pick(less), max: pick(more),
  abs: x => number(x) < 0 || Object.is(x, -0) ? -number(x) : number(x),
  isnan: x => isNaN(real(number(x))),
};
// A value as record/trees.py writes it: {"int": "7"}, {"float": "0.5"} or {"value": true}.
const constant = ({ int, float: digits, value }) => int ? BigInt(int) : digits ? Number(digits.replace("inf", "Infinity")) : value;
// A tree as views/what_if.py packs it: ["<", left, right], the number of a reading, or a value.
const evaluate = (tree, call) => {
  if (tree >= -1) return tree in call ? call[tree] : fail();
  const [op, ...args] = Array.isArray(tree) ? tree : [], isOr = op === "or";
  if (!op) return constant(tree);
  if (!isOr && op !== "and") return operators[op](...args.map(each => evaluate(each, call)));
  let value = null;
  args.some(each => truth(value = evaluate(each, call)) === isOr);  // up to the first that decides
  return value;
};
