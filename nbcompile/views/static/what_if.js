// Which entry would another call hit? The form below the table of compiled calls, answered in the page.
// `judge` and `predict` are pure: tests/views/test_what_if.py compares them with the real guards and a real compile.
// `element`, `all`, ... are view.js's.
"use strict";
const nbWhatIf = (() => {
  const { constant, evaluate } = nbTrees;
  const unpack = tree => Array.isArray(tree) ? { op: tree[0], of: tree.slice(1).map(unpack) } : tree < Infinity ? { read: tree } : tree;
  const isTrue = (test, call) => {
    try { return !!evaluate(test, call); } catch { return false; }  // what cannot be read does not hold
  };
  // The data of the page, ready: trees as objects, and each compiled call as {number of a reading: value}.
  const prepare = data => {
    const tests = data.tests.map(unpack), values = data.values.map(each => each && constant(each));
    const known = call => Object.entries(call).filter(([_, each]) => data.values[each]).map(([r, each]) => [r, values[each]]);
    return {
      ...data, values,
      entries: data.entries.map(entry => entry.map(each => tests[each])),
      calls: data.calls.map(call => Object.fromEntries(known(call))),
    };
  };

  // For each entry, in the order of trying, the number of the first guard that refuses; -1 where all hold.
  const judge = (data, call) => data.entries.map(tests => tests.findIndex(test => !isTrue(test, call)));

  // Numbers of the readings that the next compile makes symbols of, after a call that no entry accepts.
  const predict = ({ calls, varies, tensors, numbers }, call) => {
    const seen = r => [call, ...calls].filter(each => r in each);
    const differs = (r, among = seen(r)) => r in call && among.some(each => r in each && !Object.is(each[r], call[r]));
    const symbols = tensors.flatMap(({ rank, sizes, strides, type }) => {
      if (call[type] === "Parameter") return [];  // their sizes are constants
      const among = seen(rank), ranks = differs(rank, among);
      const found = sizes.filter(r => varies[r] && r in call && (ranks || differs(r, among)));
      return found.length ? found : strides.filter((r, d) => varies[sizes[d]] && differs(r, among));
    }).concat(numbers.filter(r => varies[r] && differs(r)));
    // Sizes 0 and 1 are constants always: they broadcast. So are the floats that no symbol can stand for.
    const isFixed = r => numbers.includes(r) ? typeof call[r] !== "bigint" && !(Number.isFinite(call[r]) && call[r]) : call[r] < 2n;
    return { symbols: symbols.filter(r => !isFixed(r)), fixed: symbols.filter(isFixed) };
  };

  // --- values as people write them --------------------------------------------------------------

  const NAMES = { True: true, False: false, None: null, nan: NaN, inf: Infinity, "-inf": -Infinity, nothing: undefined };
  const isInt = /^-?\d+$/, isSize = /^\d+$/, quoted = /^(['"])(.*)\1$/;
  const say = v => Object.keys(NAMES).find(name => Object.is(NAMES[name], v)) ?? (typeof v === "string" ? `'${v}'`
    : typeof v !== "number" ? `${v}` : Object.is(v, -0) ? "-0.0" : `${v}${isInt.test(v) ? ".0" : ""}`);
  const literal = text => text in NAMES ? NAMES[text] : isInt.test(text) ? BigInt(text)
    : isNaN(text) || !text ? quoted.exec(text)?.[2] : Number(text);
  const sizesOf = text => {
    const parts = text.split(/[\s,()]+|\[|\]/).filter(Boolean);
    return parts.every(part => isSize.test(part)) ? parts.map(BigInt) : undefined;
  };

  // --- the form ---------------------------------------------------------------------------------

  // What a field of each kind says: how it is written into the call (undefined: it says nothing), and how it reads.
  const KINDS = {
    value: [literal, (value, call, [r]) => { call[r] = value; }, (call, [r]) => say(call[r])],
    choice: [(text, options) => options[text], (value, call, [r]) => { call[r] = value; }, (call, [r], options) => options.indexOf(call[r])],
    shape: [sizesOf, (sizes, call, [rank, ...reads]) => {
      const most = reads.length / 2;
      reads.forEach(r => delete call[r]);
      call[rank] = BigInt(sizes.length);
      sizes.slice(0, most).reduceRight((stride, size, d) => {
        [call[reads[d]], call[reads[most + d]]] = [size, stride];  // as a new tensor lies in memory
        return stride * (size || 1n);
      }, 1n);
    }, (call, reads) => listed(call, reads.slice(1, (reads.length + 1) / 2))],
    stride: [sizesOf, (strides, call, reads) => strides.forEach((each, d) => { if (reads[d] in call) call[reads[d]] = each; }), (call, reads) => listed(call, reads)],
  };
  const listed = (call, reads) => reads.filter(r => r in call).map(r => call[r]).join(", ");

  const setUp = box => {
    const data = prepare(JSON.parse(box.querySelector("script").textContent)), verdict = spoken("n-callout");
    const ids = [...data.ids].reverse();  // the newest is asked first
    let call = {};
    const fills = all(box, "tbody tr").map((row, n) => {
      const [kind, reads, ...choices] = data.fields[n], [read, write, show] = KINDS[kind];
      const name = row.cells[0].textContent, options = choices.map(each => data.values[each]);
      const field = element(options.length ? "select" : "input", { ariaLabel: `${name}, your call` }), cell = element("td");
      options.forEach((value, i) => field.append(element("option", { textContent: `${value}` === value ? value : say(value), value: i })));
      cell.append(field);
      row.cells[0].after(cell);
      listen(field, "input", () => {
        const value = read(field.value.trim(), options);
        field.ariaInvalid = value === undefined;
        if (value === undefined) verdict.textContent = `${name}: write ${kind === "value" ? "a Python constant" : "sizes, as in 3, 4"}`;
        else answer(write(value, call, reads));
      });
      return () => { if (document.activeElement !== field) field.value = show(call, reads, options); };
    });
    all(box, "thead tr").forEach(head => head.cells[0].after(element("th", { textContent: "your call" })));
    const label = r => data.labels[r], names = reads => reads.map(label).join(", ");
    const why = (test, item) => {
      const part = test.op === "and" ? test.of.find(one => !isTrue(one, call)) : test, { read } = part.of?.[0] ?? {};
      return part.op === "same" && read !== undefined ? `${label(read)} must be ${say(constant(part.of[1]))}, is ${say(call[read])}`
        : item.querySelector("span").textContent;
    };
    const answer = () => {
      const said = judge(data, call), hit = said.indexOf(-1), reasons = [];
      all(box, "details.n-entry").forEach((entry, i) => {
        const failed = said[i], accepts = failed < 0, isAsked = hit < 0 || i <= hit, items = all(entry, "li");
        Object.assign(entry.querySelector("output"), {
          className: `n-chip n-${isAsked ? accepts ? "ok" : "bad" : ""}`,
          textContent: isAsked ? accepts ? "accepts" : "refuses" : "not asked",
        });
        items.forEach((item, g) => { item.className = isAsked && (accepts || g <= failed) ? g === failed ? "n-bad" : "n-ok" : ""; });
        if (!accepts) reasons.push(`${ids[i]}: ${why(data.entries[i][failed], items[failed])}`);
      });
      const { symbols, fixed } = predict(data, call);
      const next = data.entries.length >= data.limit ? `The limit of ${data.limit} entries is reached: it would run as plain Python.`
        : `It would be compiled with ${symbols.length ? `symbols for what differed between calls: ${names(symbols)}` : "no new symbol"}${fixed.length ? `; ${names(fixed)} stays constant` : ""}.`;
      verdict.className = `n-callout n-${hit < 0 ? "warn" : "ok"}`;
      verdict.textContent = hit < 0 ? `Recompile. ${reasons.join("; ")}. ${next}` : `Hit: ${ids[hit]} runs. Nothing is compiled.`;
    };
    const fill = () => fills.forEach(each => each());
    const ask = asked => {
      call = asked;
      fill();
      answer();
    };
    const start = n => ask(Object.assign({}, ...data.calls, data.calls[n])), tools = element("p", { className: "n-tools" });
    tools.append(...data.ids.map((id, n) => pressable(`as for ${id}`, () => start(n))));
    box.prepend(tools);
    box.querySelector(".n-scroll").after(verdict);
    listen(box, "change", fill);
    start(data.calls.length - 1);
    // What a kernel sends: a call as {number of a reading: value, as a tree}.
    box.nbAsk = asked => ask(Object.fromEntries(Object.entries(asked).map(([r, value]) => [r, constant(value)])));
  };
  return { prepare, judge, predict, setUp };
})();
if (typeof module !== "undefined") module.exports = nbWhatIf;
