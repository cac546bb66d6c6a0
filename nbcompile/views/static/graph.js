// A drawn graph: zoom (buttons, + - 0, Ctrl and wheel), move (scroll, drag), find a node, and details of the selected.
// Boxes are selected by view.js; the table twin below knows what is folded. `element`, `all`, ... are view.js's.
const nbGraph = pane => {
  const drawing = pane.querySelector("svg"), { width, height } = drawing.viewBox.baseVal;
  const section = pane.closest("details"), boxes = all(drawing, "[data-n]"), about = element("p", { className: "n-quiet" });
  let scale = 1, from = null, moved = false, found = [];
  const zoom = to => {
    const half = [pane.clientWidth / 2, pane.clientHeight / 2], before = scale;
    const centre = [pane.scrollLeft + half[0], pane.scrollTop + half[1]];
    scale = Math.min(Math.max(to, 0.1), 4);
    Object.assign(drawing.style, { width: `${width * scale}px`, height: `${height * scale}px` });
    pane.scrollTo(...centre.map((each, i) => each * scale / before - half[i]));
  };
  const fit = () => zoom(Math.min(1, (pane.clientWidth - 4) / width, 560 / height));
  const show = box => box.scrollIntoView({ block: "nearest", inline: "nearest" });

  // What the table says of the node that is selected; of several, their names.
  const tell = () => {
    const on = all(section, "tbody .n-on"), words = row => [...row.cells].map(each => each.textContent.trim()).filter(Boolean);
    about.textContent = on.length > 1 ? on.map(row => words(row)[0]).join(", ") : on.flatMap(words).join(" · ");
  };
  const find = text => {
    const has = node => text && node.textContent.toLowerCase().includes(text);
    const names = new Set(all(section, "tbody tr").filter(has).flatMap(row => ids(row)));
    found = boxes.filter(box => has(box) || ids(box).some(each => names.has(each)));
    boxes.forEach(box => box.classList.toggle("n-hi", found.includes(box)));
    about.textContent = text && `${found.length} found${found.length > 1 ? ": Enter goes from one to the next" : ""}`;
    if (found.length) show(found[0]);
  };

  const tools = element("div", { className: "n-tools" }), field = element("input", { type: "search", placeholder: "Find a node" });
  field.ariaLabel = field.placeholder;
  listen(field, "input", () => find(field.value.trim().toLowerCase()));
  listen(field, "keydown", event => {
    if (event.key !== "Enter" || !found.length) return;
    found.push(found.shift());
    found.at(-1).dispatchEvent(new MouseEvent("click", { bubbles: true }));
    show(found.at(-1));
  });
  tools.append(pressable("Smaller", () => zoom(scale / 1.25)), pressable("Larger", () => zoom(scale * 1.25)), pressable("Fit", fit), field);
  pane.before(tools);
  pane.after(about);
  listen(frameOf(pane), "n-selected", tell);
  listen(pane, "keydown", event => {
    const keys = { "+": () => zoom(scale * 1.25), "-": () => zoom(scale / 1.25), 0: fit };
    keys[event.key]?.();
  });
  listen(pane, "wheel", event => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(scale * 2 ** (-event.deltaY / 300));
  });
  listen(pane, "pointerdown", event => { from = event.pointerType === "mouse" && [event.clientX + pane.scrollLeft, event.clientY + pane.scrollTop]; });
  listen(pane, "pointermove", event => {
    if (!from || !event.buttons) return;
    const to = [from[0] - event.clientX, from[1] - event.clientY];
    moved = Math.hypot(to[0] - pane.scrollLeft, to[1] - pane.scrollTop) > 4 || moved;
    if (moved) pane.scrollTo(...to);
  });
  // Where a drag ends is no click.
  pane.addEventListener("click", event => {
    if (moved) event.stopPropagation();
    moved = false;
  }, true);
  // At first as wide as there is room for, and legible.
  const begin = () => { if (pane.clientWidth && scale === 1) zoom(Math.max(0.6, Math.min(1, (pane.clientWidth - 4) / width))); };
  listen(section, "toggle", begin);
  begin();
};
