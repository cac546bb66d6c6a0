// Time travel through the symbolic interpreter: a slider over the recorded steps, and the state at each.
// `stateAt` is pure: tests/views/test_steps.py compares it with the record. `element`, `all`, ... are view.js's.
const nbSteps = (() => {
  // What holds before step n: the instruction, stack and locals of that step; guards and nodes of those before.
  const stateAt = ({ lists, steps, texts }, n) => {
    const [name, depth, instruction, line, text, ...own] = steps[n], told = list => lists[list].map(each => texts[each]);
    const [stack, values, newGuards, newNodes] = own.map(told), before = what => steps.slice(0, n).flatMap(step => told(step[what]));
    return { name: texts[name], depth, instruction: texts[instruction], line, text: texts[text],
      stack, values, guards: before(7), nodes: before(8), made: [...newNodes, ...newGuards] };
  };
  // Where something happens: a guard, a node, a call that is followed or left.
  const isEvent = ({ lists, steps }, n) =>
    lists[steps[n][7]].length || lists[steps[n][8]].length || n && steps[n][1] !== steps[n - 1][1];

  const setUp = box => {
    const data = JSON.parse(box.querySelector("script").textContent), last = data.steps.length - 1;
    const events = [...data.steps.keys()].filter(n => isEvent(data, n));
    const slider = element("input", { type: "range", min: 0, max: last, value: 0, ariaLabel: "Step of the interpreter" });
    const said = spoken("n-callout n-info"), panes = element("dl"), tools = element("p", { className: "n-tools" });
    const strip = element("div", { className: "n-marks", ariaHidden: true }), rows = all(box, "tbody tr");
    strip.append(...events.map(n => element("i", { style: `left:${n * 100 / (last || 1)}%` })));
    const code = (text, isNew) => element("code", { textContent: text, className: isNew ? "n-on" : "" });
    const pane = (title, items, fresh = []) => {
      const list = element("dd"), first = items.length - items.filter(each => fresh.includes(each)).length;
      list.append(...items.length ? items.flatMap((item, i) => [code(item, i >= first), element("br")]) : ["none yet"]);
      panes.append(element("dt", { textContent: title }), list);
    };
    const show = () => {
      const n = Number(slider.value), { name, line, text, instruction, made, stack, values, nodes, guards } = stateAt(data, n);
      const at = `Step ${n + 1} of ${last + 1}, ${name}, line ${line}: ${text}`, fresh = n ? stateAt(data, n - 1).made : [];
      const next = n === last && data.end ? `Then the graph ends: ${data.end}` : made.length ? `Adds ${made.join("; ")}` : "";
      slider.ariaValueText = at;
      rows.forEach(row => {
        const [from, to = from] = row.cells[0].textContent.split("-").map(Number);
        row.classList.toggle("n-on", from <= n + 1 && n < to);
      });
      said.replaceChildren(at, element("br"), code(instruction), " ", next);
      panes.replaceChildren();
      pane("stack, top last", stack);
      pane(`locals of ${name}`, values);
      pane("graph so far", nodes, fresh);
      pane("guards so far", guards, fresh);
    };
    const go = n => {
      slider.value = n;
      show();
    };
    const button = (text, to) => tools.append(pressable(text, () => go(to(Number(slider.value)))));
    button("Back", n => n - 1);
    button("Forward", n => n + 1);
    button("Back to the last event", n => events.findLast(each => each < n) ?? 0);
    button("On to the next event", n => events.find(each => each > n) ?? last);
    listen(slider, "input", show);
    rows.forEach(row => listen(row, "click", () => go(parseInt(row.cells[0].textContent) - 1)));
    box.prepend(tools, slider, strip, said, panes);
    show();
  };
  return { stateAt, setUp };
})();
if (typeof module !== "undefined") module.exports = nbSteps;
