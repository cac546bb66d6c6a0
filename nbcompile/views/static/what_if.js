// Which entry would another call hit? The form below the table of compiled calls, answered in the page.
// `judge` and `predict` are pure: tests/views/test_what_if.py compares them with the real guards and a real compile.
const holds = (test, call) => {
  try { return !!evaluate(test, call); } catch { return false; }  // what cannot be read does not hold
};
// The data of the page, ready: each test a tree, each compiled call as {number of a reading: value}.
const prepare = data => {
  const values = data.values.map(each => each && constant(each));
  return {
    ...data, values,
    entries: data.entries.map(entry => entry.map(each => data.tests[each])),
    calls: data.calls.map(call => Object.fromEntries(call.flatMap((each, r) => data.values[each] ? [[r, values[each]]] : []))),
  };
};

// For each entry, in the order in which they are tried, the number of the first guard that fails; -1 if all hold.
const judge = (data, call) => data.entries.map(tests => tests.findIndex(test => !holds(test, call)));

// Numbers of the readings that the next compile makes symbols of, after a call that no entry accepts.
const predict = ({ calls, varies, tensors, numbers }, call) => {
  const seen = r => [call, ...calls].filter(each => isNumber(each[r]) && each[r] === each[r]);  // texts, True and nan are not compared
  const differs = (r, among = seen(r)) => r in call && among.some(each => r in each && each[r] != call[r]);  // 1 and 1.0 are the same, and 0.0 and -0.0
  const symbols = tensors.flatMap(({ rank, sizes, strides, type }) => {
    if (call[type] === "Parameter") return [];  // their sizes are constants
    const among = seen(rank), ranks = differs(rank, among);
    const found = sizes.filter(r => varies[r] && r in call && (ranks || differs(r, among)));
    return found.length ? found : strides.filter((r, d) => varies[sizes[d]] && differs(r, among));
  }).concat(numbers.filter(r => varies[r] && differs(r)));
  // Sizes 0 and 1 are constants always: they broadcast. So are the floats that no symbol can stand for.
  const isFixed = r => numbers.includes(r) ? !isInt(call[r]) && !(finite(call[r]) && call[r]) : call[r] < 2n;
  return { symbols: symbols.filter(r => !isFixed(r)), fixed: symbols.filter(isFixed) };
};

// --- values as people write them --------------------------------------------------------------

const NAMES = { True: true, False: false, None: null, nan: NaN, inf: Infinity, "-inf": -Infinity, nothing: undefined };
const whole = /^-?\d+$/;
const spelled = v => Object.keys(NAMES).find(name => Object.is(NAMES[name], v)) ?? (isText(v) ? `'${v}'`
  : isInt(v) ? `${v}` : Object.is(v, -0) ? "-0.0" : `${v}${whole.test(v) ? ".0" : ""}`);
const literal = text => text in NAMES ? NAMES[text] : whole.test(text) ? BigInt(text)
  : isNaN(text) || !text ? /^(['"])(.*)\1$/.exec(text)?.[2] : Number(text);
const sizesOf = text => {
  const sizes = text.split(/[\s,()]+|\[|\]/).filter(Boolean);
  return sizes.every(each => /^\d+$/.test(each)) ? sizes.map(BigInt) : undefined;
};

// --- the form ---------------------------------------------------------------------------------

const listed = (call, reads) => reads.filter(r => r in call).map(r => call[r]).join(", ");
const store = (value, call, [r]) => { call[r] = value; };
// Text of a field of each kind: how it is written into the call (undefined: not at all), and how it is parsed.
const KINDS = {
  value: [literal, store, (call, [r]) => spelled(call[r])],
  choice: [(text, options) => options[text], store, (call, [r], options) => options.indexOf(call[r])],
  shape: [sizesOf, (sizes, call, [rank, ...reads]) => {
    const most = reads.length / 2;
    reads.forEach(r => delete call[r]);
    call[rank] = BigInt(sizes.length);
    sizes.slice(0, most).reduceRight((stride, size, d) => {
      [call[reads[d]], call[reads[most + d]]] = [size, stride];  // the layout of a new tensor
      return stride * (size || 1n);
    }, 1n);
  }, (call, reads) => listed(call, reads.slice(1, (reads.length + 1) / 2))],
  stride: [sizesOf, (strides, call, reads) => strides.forEach((each, d) => { if (reads[d] in call) call[reads[d]] = each; }), listed],
};

parts[".n-what"] = box => {
  const data = prepare(dataOf(box)), verdict = spoken(""), { labels, limit } = data;
  const ids = data.ids.toReversed();  // the newest is checked first
  let call = {};
  const fills = all(box, "tbody tr").map((row, n) => {
    const [kind, reads, ...choices] = data.fields[n], [read, set, show] = KINDS[kind], head = row.cells[0];
    const name = wordsOf(head), options = choices.map(each => data.values[each]);
    const field = element(options.length ? "select" : "input", { ariaLabel: `${name}, your call` }, ...options.map(
      (value, i) => element("option", { value: i }, isText(value) ? value : spelled(value)),
    ));
    head.after(element("td", {}, field));
    field.oninput = () => {
      const value = read(field.value.trim(), options);
      if (field.ariaInvalid = value === undefined) write(verdict, `${name}: write ${kind === "value" ? "a Python constant" : "sizes, as in 3, 4"}`);
      else answer(set(value, call, reads));
    };
    return () => { if (document.activeElement !== field) field.value = show(call, reads, options); };
  });
  all(box, "thead th:first-child").forEach(each => each.after(element("th", {}, "your call")));
  const names = reads => reads.map(r => labels[r]).join(", ");
  const why = (test, item) => {
    const [op, r, expected] = test[0] === "and" ? test.slice(1).find(one => !holds(one, call)) : test;
    return op === "same" && r >= 0 ? `${labels[r]} must be ${spelled(constant(expected))}, is ${spelled(call[r])}`
      : wordsOf(first(item, "span"));
  };
  const answer = () => {
    const failures = judge(data, call), hit = failures.indexOf(-1), reasons = [];
    all(box, "details.n-entry").forEach((entry, i) => {
      const failed = failures[i], accepts = failed < 0, isChecked = hit < 0 || i <= hit, items = all(entry, "li");
      const [look, text] = !isChecked ? ["", "not checked"] : accepts ? ["ok", "accepts"] : ["bad", "rejects"];
      Object.assign(first(entry, "output"), { className: `n-chip n-${look}`, textContent: text });
      items.forEach((item, g) => { item.className = isChecked && (accepts || g <= failed) ? g === failed ? "n-bad" : "n-ok" : ""; });
      if (!accepts) reasons.push(`${ids[i]}: ${why(data.entries[i][failed], items[failed])}`);
    });
    const { symbols, fixed } = predict(data, call);
    const next = ids.length < limit ? `It would be compiled with ${symbols.length ? `symbols for what differed between calls: ${names(symbols)}` : "no new symbol"}${fixed.length ? `; ${names(fixed)} stays constant` : ""}`
      : `The limit of ${limit} entries is reached: it would run eagerly`;
    verdict.className = `n-callout n-${hit < 0 ? "warn" : "ok"}`;
    write(verdict, hit < 0 ? `Recompile. ${reasons.join("; ")}. ${next}.` : `Hit: ${ids[hit]} runs. Nothing is compiled.`);
  };
  const fill = () => fills.forEach(each => each());
  const query = given => {
    call = given;
    fill();
    answer();
  };
  const start = n => query(Object.assign({}, ...data.calls, data.calls[n]));
  box.prepend(toolbar(...data.ids.map((id, n) => pressable(() => start(n), `as for ${id}`))));
  first(box, ".n-scroll").after(verdict);
  box.onchange = fill;
  start(ids.length - 1);
  box.nbQuery = query;  // for calls that a kernel sends
};
