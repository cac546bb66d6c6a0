// A drawn graph: zoom (buttons, + - 0, Ctrl and wheel), move (scroll, drag), find a node, and details of the selected.
// Boxes are selected by view.js; the table twin below knows what is folded. `element`, `all`, ... are view.js's.
const nbGraph = pane => {
  const drawing = pane.querySelector("svg"), { width, height } = drawing.viewBox.baseVal;
  const section = pane.closest("details"), boxes = all(drawing, "[data-n]"), about = element("p", { className: "n-quiet" });
  let scale = 1, dragged = 0, found = [];
  const zoom = to => {
    const { clientWidth, clientHeight, scrollLeft, scrollTop } = pane, before = scale;
    scale = Math.min(Math.max(to, 0.1), 4);
    Object.assign(drawing.style, { width: `${width * scale}px`, height: `${height * scale}px` });
    const moved = (from, room) => (from + room / 2) * scale / before - room / 2;  // the centre stays
    pane.scrollTo(moved(scrollLeft, clientWidth), moved(scrollTop, clientHeight));
  };
  const wide = () => Math.min(1, (pane.clientWidth - 4) / width), by = factor => () => zoom(scale * factor);
  const larger = by(1.25), smaller = by(0.8), fit = () => zoom(Math.min(wide(), 560 / height));

  // What the table says of the node that is selected; of several, their names.
  const tell = () => {
    const on = all(section, "tbody .n-on"), words = row => [...row.cells].map(each => each.textContent.trim()).filter(Boolean);
    about.textContent = on.length > 1 ? on.map(row => words(row)[0]).join(", ") : on.flatMap(words).join(" · ");
  };
  const show = () => found[0]?.scrollIntoView({ block: "nearest", inline: "nearest" });
  const find = text => {
    const has = node => text && contains(node, text), names = new Set(all(section, "tbody tr").filter(has).flatMap(ids));
    found = boxes.filter(box => {
      const on = has(box) || ids(box).some(each => names.has(each));
      box.classList.toggle("n-hi", on);
      return on;
    });
    about.textContent = text && `${found.length} found${found.length > 1 ? ": Enter goes from one to the next" : ""}`;
    show();
  };

  const tools = element("div", { className: "n-tools" }), field = searching("Find a node", find);
  listen(field, "keydown", event => {
    if (event.key !== "Enter" || !found.length) return;
    found[0].dispatchEvent(new MouseEvent("click", { bubbles: true }));
    show();
    found.push(found.shift());
  });
  tools.append(pressable("Smaller", smaller), pressable("Larger", larger), pressable("Fit", fit), field);
  pane.before(tools);
  pane.after(about);
  listen(frameOf(pane), "n-selected", tell);
  listen(pane, "keydown", event => ({ "+": larger, "-": smaller, 0: fit })[event.key]?.());
  listen(pane, "wheel", event => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(scale * 2 ** (-event.deltaY / 300));
  });
  listen(pane, "pointermove", ({ buttons, pointerType, movementX, movementY }) => {
    if (!buttons || pointerType !== "mouse") return;
    dragged += Math.hypot(movementX, movementY);
    pane.scrollBy(-movementX, -movementY);
  });
  // Where a drag ends is no click.
  listen(pane, "click", event => {
    if (dragged > 4) event.stopPropagation();
    dragged = 0;
  }, true);
  // At first as wide as there is room for, and legible.
  const begin = () => { if (pane.clientWidth && scale === 1) zoom(Math.max(0.6, wide())); };
  listen(section, "toggle", begin);
  begin();
};
