// Which entry would another call hit? The form below the table of compiled calls, answered in the page.
// `judge` and `predict` are pure: tests/views/test_what_if.py compares them with the real guards and a real compile.
// `element`, `all`, ... are view.js's.
"use strict";
const nbWhatIf = (() => {
  const { constant, evaluate } = nbTrees;
  const unpack = tree => Array.isArray(tree) ? { op: tree[0], of: tree.slice(1).map(unpack) }
    : typeof tree === "number" ? { read: tree } : tree;
  const isTrue = (test, call) => {
    try { return Boolean(evaluate(test, call)); } catch { return false; }  // what cannot be read does not hold
  };
  // The data of the page, ready: trees as objects, and each compiled call as {number of a reading: value}.
  const prepare = data => {
    const tests = data.tests.map(unpack), values = data.values.map(each => each && constant(each));
    const has = each => data.values[each];
    return {
      ...data, values,
      entries: data.entries.map(entry => entry.map(each => tests[each])),
      calls: data.calls.map(call => Object.fromEntries(call.flatMap((each, r) => has(each) ? [[r, values[each]]] : []))),
    };
  };

  // For each entry, in the order of trying, the number of the first guard that refuses; -1 where all hold.
  const judge = (data, call) => data.entries.map(tests => tests.findIndex(test => !isTrue(test, call)));

  // Numbers of the readings that the next compile makes symbols of, after a call that no entry accepts.
  const differ = (r, seen) => seen.some(call => r in call && !Object.is(call[r], seen[0][r]));
  const predict = (data, call) => {
    const symbols = [], known = r => data.varies[r] && r in call;
    for (const { rank, sizes, strides, type } of data.tensors) {
      if (call[type] === "Parameter") continue;  // their sizes are constants
      const seen = [call, ...data.calls].filter(each => rank in each), ranks = differ(rank, seen);
      const changed = reads => reads.filter(r => known(r) && (ranks || differ(r, seen)));
      const found = changed(sizes);
      symbols.push(...(found.length ? found : strides.filter(r => r in call && data.varies[sizes[strides.indexOf(r)]] && differ(r, seen))));
    }
    for (const r of data.numbers) {
      const seen = [call, ...data.calls].filter(each => r in each);
      if (known(r) && differ(r, seen)) symbols.push(r);
    }
    // Sizes 0 and 1 are constants always: they broadcast. So are the floats that no symbol can stand for.
    const isFixed = r => data.numbers.includes(r) ? typeof call[r] !== "bigint" && !(Number.isFinite(call[r]) && call[r]) : call[r] < 2n;
    return { symbols: symbols.filter(r => !isFixed(r)), fixed: symbols.filter(isFixed) };
  };

  // --- values as people write them --------------------------------------------------------------

  const NAMES = { True: true, False: false, None: null, nan: NaN, inf: Infinity, "-inf": -Infinity, nothing: undefined };
  const say = v => Object.keys(NAMES).find(name => Object.is(NAMES[name], v)) ?? (typeof v === "string" ? `'${v}'`
    : typeof v !== "number" ? `${v}` : Object.is(v, -0) ? "-0.0" : `${v}${/^-?\d+$/.test(v) ? ".0" : ""}`);
  const literal = text => {
    if (text in NAMES) return NAMES[text];
    if (/^-?\d+$/.test(text)) return BigInt(text);
    return text && Number(text) === Number(text) ? Number(text) : /^(['"])(.*)\1$/.exec(text)?.[2];
  };
  const sizesOf = text => {
    const parts = text.replace(/[[\]()]/g, "").split(",").map(part => part.trim()).filter(Boolean);
    return parts.every(part => /^\d+$/.test(part)) ? parts.map(BigInt) : undefined;
  };

  // --- the form ---------------------------------------------------------------------------------

  // Writes what a field says into the call; false if the field says nothing.
  const WRITE = {
    value: (text, call, [r]) => {
      const value = literal(text);
      if (value === undefined) return false;
      call[r] = value;
    },
    choice: (text, call, [r], options) => { call[r] = options[text]; },
    shape: (text, call, [rank, ...reads]) => {
      const sizes = sizesOf(text), most = reads.length / 2;
      if (!sizes) return false;
      call[rank] = BigInt(sizes.length);
      let stride = 1n;
      for (let d = most - 1; d >= 0; d--) {
        delete call[reads[d]];
        delete call[reads[most + d]];
        if (d >= sizes.length) continue;
        [call[reads[d]], call[reads[most + d]]] = [sizes[d], stride];  // as a new tensor lies in memory
        stride *= sizes[d] || 1n;
      }
    },
    stride: (text, call, reads) => {
      const strides = sizesOf(text);
      if (!strides) return false;
      reads.forEach((r, d) => { if (r in call && d < strides.length) call[r] = strides[d]; });
    },
  };
  const shown = (kind, call, reads) => kind === "shape" || kind === "stride"
    ? (kind === "shape" ? reads.slice(1, 1 + (reads.length - 1) / 2) : reads).filter(r => r in call).map(r => call[r]).join(", ")
    : say(call[reads[0]]);

  const setUp = box => {
    const data = prepare(JSON.parse(box.querySelector("script").textContent));
    const rows = all(box, "tbody tr"), verdict = spoken("n-callout");
    const ids = [...data.ids].reverse();  // the newest is asked first
    let call = {};
    const fields = rows.map((row, n) => {
      const [kind, reads, ...choices] = data.fields[n], label = row.cells[0].textContent, options = choices.map(each => data.values[each]);
      const field = kind === "choice" ? element("select") : element("input");
      options.forEach((value, i) => field.append(element("option", { textContent: typeof value === "string" ? value : say(value), value: i })));
      field.ariaLabel = `${label}, your call`;
      const cell = element("td");
      cell.append(field);
      row.cells[0].after(cell);
      listen(field, "input", () => {
        const bad = WRITE[kind](field.value.trim(), call, reads, options) === false;
        field.ariaInvalid = bad;
        verdict.textContent = bad ? `${label}: write ${kind === "value" ? "a Python constant" : "sizes, as in 3, 4"}` : answer();
      });
      return () => {
        if (document.activeElement !== field) field.value = options.length ? options.indexOf(call[reads[0]]) : shown(kind, call, reads);
      };
    });
    for (const head of all(box, "thead tr")) head.cells[0].after(element("th", { textContent: "your call" }));
    const label = r => data.labels[r];
    const why = (test, each) => {
      const part = test.op === "and" ? test.of.find(one => !isTrue(one, call)) : test;
      return part?.op === "same" && "read" in part.of[0]
        ? `${label(part.of[0].read)} must be ${say(constant(part.of[1]))}, is ${say(call[part.of[0].read])}` : each.querySelector("span").textContent;
    };
    const answer = () => {
      const said = judge(data, call), hit = said.indexOf(-1);
      const folds = all(box, "details.n-entry");
      said.forEach((failed, i) => {
        const state = hit >= 0 && hit < i ? "" : failed < 0 ? "ok" : "bad", out = folds[i].querySelector("output");
        out.className = `n-chip n-${state}`;
        out.textContent = state === "ok" ? "accepts" : state ? "refuses" : "not asked";
        all(folds[i], "li").forEach((item, g) => {
          const asked = state === "ok" || state && g <= failed;
          item.className = asked ? (g === failed ? "n-bad" : "n-ok") : "";
        });
      });
      verdict.className = `n-callout n-${hit < 0 ? "warn" : "ok"}`;
      if (hit >= 0) return `Hit: ${ids[hit]} runs. Nothing is compiled.`;
      const reasons = said.map((g, i) => `${ids[i]}: ${why(data.entries[i][g], all(folds[i], "li")[g])}`);
      const { symbols, fixed } = predict(data, call), names = reads => reads.map(label).join(", ");
      const next = data.entries.length >= data.limit ? `The limit of ${data.limit} entries is reached: it would run as plain Python.`
        : `It would be compiled${symbols.length ? ` with symbols for what differed between calls: ${names(symbols)}` : ", with no new symbol"}${fixed.length ? `; ${names(fixed)} stays constant` : ""}.`;
      return `Recompile. ${reasons.join("; ")}. ${next}`;
    };
    const start = n => {
      call = { ...data.calls.reduce((all, each) => ({ ...all, ...each }), {}), ...data.calls[n] };
      fields.forEach(fill => fill());
      verdict.textContent = answer();
    };
    const tools = element("p", { className: "n-tools" });
    data.calls.forEach((_, n) => tools.append(pressable(`as for ${data.ids[n]}`, () => start(n))));
    box.prepend(tools);
    box.querySelector(".n-scroll").after(verdict);
    listen(box, "change", () => fields.forEach(fill => fill()));
    start(data.calls.length - 1);
    // What a kernel sends: a call as {number of a reading: value, as a tree}.
    box.nbAsk = asked => {
      call = Object.fromEntries(Object.entries(asked).map(([r, value]) => [r, constant(value)]));
      fields.forEach(fill => fill());
      verdict.textContent = answer();
    };
  };
  return { prepare, judge, predict, setUp };
})();
if (typeof module !== "undefined") module.exports = nbWhatIf;
