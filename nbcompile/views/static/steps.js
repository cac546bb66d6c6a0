// Time travel through the symbolic interpreter: a slider over the recorded steps, and the state at each.
// `stateAt` is pure: tests/views/test_steps.py compares it with the record.

// What holds before step n: the instruction, stack and locals of that step; guards and nodes of those before.
const stateAt = ({ lists, steps, texts }, n) => {
  const [name, depth, instruction, line, text, ...own] = steps[n], shown = list => lists[list].map(each => texts[each]);
  const [stack, values, newGuards, newNodes] = own.map(shown), before = what => steps.slice(0, n).flatMap(step => shown(step[what]));
  return { name: texts[name], instruction: texts[instruction], line, text: texts[text],
    stack, values, guards: before(7), nodes: before(8), made: [...newNodes, ...newGuards] };
};
// Where something happens: a guard, a node, a call that is followed or left.
const isEvent = ({ lists, steps }, n) =>
  lists[steps[n][7]].length || lists[steps[n][8]].length || n && steps[n][1] !== steps[n - 1][1];

parts[".n-steps"] = box => {
  const data = dataOf(box), last = data.steps.length - 1, events = [...data.steps.keys()].filter(n => isEvent(data, n));
  const status = spoken("n-callout n-info"), panes = element("dl"), rows = all(box, "tbody tr");
  const slider = element("input", { type: "range", max: last, value: 0, ariaLabel: "Step of the interpreter" });
  const code = (text, isNew) => element("code", { className: isNew ? "n-on" : "" }, text);
  const pane = (title, items, old) => [
    element("dt", {}, title),
    element("dd", {}, ...items.length ? items.map((item, i) => code(item, i >= old)) : ["none yet"]),
  ];
  const rangeOf = row => wordsOf(row.cells[0]).split("-").map(Number);
  const show = () => {
    const n = slider.valueAsNumber, now = stateAt(data, n), old = n ? stateAt(data, n - 1) : now, { name, made } = now;
    const next = n === last && data.end ? `Then the graph ends: ${data.end}` : made.length ? `Adds ${made.join("; ")}` : "";
    slider.ariaValueText = `Step ${n + 1} of ${last + 1}, ${name}, line ${now.line}: ${now.text}`;
    for (const row of rows) {
      const [begin, end = begin] = rangeOf(row);
      row.classList.toggle("n-on", begin <= n + 1 && n < end);
    }
    status.replaceChildren(slider.ariaValueText, code(now.instruction), next);
    panes.replaceChildren(
      ...pane("stack, top last", now.stack), ...pane(`locals of ${name}`, now.values),
      ...pane("graph so far", now.nodes, old.nodes.length), ...pane("guards so far", now.guards, old.guards.length),
    );
  };
  const go = n => {
    slider.value = n;
    show();
  };
  const button = (text, to) => pressable(() => go(to(slider.valueAsNumber)), text);
  slider.oninput = show;
  rows.forEach(row => { row.onclick = () => go(rangeOf(row)[0] - 1); });
  box.prepend(
    toolbar(
      button("Back", n => n - 1), button("Forward", n => n + 1),
      button("Back to the last event", n => events.findLast(each => each < n) ?? 0),
      button("On to the next event", n => events.find(each => each > n) ?? last),
    ), slider,
    element("div", { className: "n-marks", ariaHidden: true }, ...events.map(n => element("i", { style: `left:${n * 100 / (last || 1)}%` }))),
    status, panes,
  );
  show();
};
