// Time travel through the symbolic interpreter: a slider over the recorded steps, and the state at each.
// `stateAt` is pure: tests/views/test_steps.py compares it with the record. `element`, `all`, ... are view.js's.
const nbSteps = (() => {
  // What holds before step n: the instruction, stack and locals of that step; guards and nodes of those before.
  const stateAt = (data, n) => {
    const texts = list => data.lists[list].map(each => data.texts[each]);
    const [name, depth, instruction, line, text, stack, values] = data.steps[n];
    const before = what => data.steps.slice(0, n).flatMap(step => texts(step[what]));
    const now = what => texts(data.steps[n][what]);
    return { name: data.texts[name], depth, instruction: data.texts[instruction], line, text: data.texts[text],
      stack: texts(stack), values: texts(values), guards: before(7), nodes: before(8), made: [...now(8), ...now(7)] };
  };
  // Where something happens: a guard, a node, a call that is followed or left.
  const marks = data => data.steps.flatMap((step, n) =>
    data.lists[step[7]].length || data.lists[step[8]].length || n && step[1] !== data.steps[n - 1][1] ? [n] : []);

  const setUp = box => {
    const data = JSON.parse(box.querySelector("script").textContent), last = data.steps.length - 1, events = marks(data);
    const slider = element("input", { type: "range", min: 0, max: last, value: 0, ariaLabel: "Step of the interpreter" });
    const said = spoken("n-callout n-info"), panes = element("dl"), tools = element("p", { className: "n-tools" });
    const strip = element("div", { className: "n-marks" });
    strip.ariaHidden = true;
    events.forEach(n => strip.append(Object.assign(element("i"), { style: `left:${last ? n * 100 / last : 0}%` })));
    const rows = all(box, "tbody tr");
    const pane = (title, items, fresh = 0) => {
      const list = element("dd");
      if (!items.length) list.append("none yet");
      items.forEach((item, i) => {
        const line = element("code", { textContent: item, className: i >= items.length - fresh ? "n-on" : "" });
        list.append(line, element("br"));
      });
      panes.append(element("dt", { textContent: title }), list);
    };
    const show = () => {
      const n = Number(slider.value), state = stateAt(data, n), previous = n ? stateAt(data, n - 1) : { made: [] };
      const at = `Step ${n + 1} of ${last + 1}, ${state.name}, line ${state.line}: ${state.text}`;
      const next = n === last && data.end ? `Then the graph ends: ${data.end}` : state.made.length ? `Adds ${state.made.join("; ")}` : "";
      slider.ariaValueText = at;
      for (const row of rows) {
        const [from, to] = row.cells[0].textContent.split("-").map(Number);
        row.classList.toggle("n-on", from <= n + 1 && n < (to || from));
      }
      said.replaceChildren(at, element("br"), element("code", { textContent: state.instruction }), " ", next);
      panes.replaceChildren();
      pane("stack, top last", state.stack);
      pane(`locals of ${state.name}`, state.values);
      pane("graph so far", state.nodes, previous.made.filter(each => state.nodes.includes(each)).length);
      pane("guards so far", state.guards, previous.made.filter(each => state.guards.includes(each)).length);
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
  return { stateAt, marks, setUp };
})();
if (typeof module !== "undefined") module.exports = nbSteps;
