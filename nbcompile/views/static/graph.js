// A drawn graph: zoom (buttons, + - 0, Ctrl and wheel), move (scroll, drag), find a node, and details of the selected.
// Boxes are selected by view.js; the table below has the state of the folds.
parts[".n-graph:has(svg)"] = pane => {
  const drawing = first(pane, "svg"), boxes = all(drawing, "[data-n]"), { width, height } = drawing.viewBox.baseVal;
  if (boxes.length < 13) return;
  const section = pane.closest("details"), rows = all(section, "tbody tr"), about = element("p", { className: "n-quiet" });
  let scale = 1, dragged = 0, found = [];
  const zoom = to => {
    const { clientWidth, clientHeight, scrollLeft, scrollTop } = pane, before = scale;
    scale = Math.min(Math.max(to, 0.1), 4);
    drawing.style.zoom = scale;
    const moved = (start, room) => (start + room / 2) * scale / before - room / 2;  // the centre stays
    pane.scrollTo(moved(scrollLeft, clientWidth), moved(scrollTop, clientHeight));
  };
  const wide = () => Math.min(1, (pane.clientWidth - 4) / width), by = factor => () => zoom(scale * factor);
  const larger = by(1.25), smaller = by(0.8), fit = () => zoom(Math.min(wide(), 560 / height));

  // Text of the table about the selected node; of several, their names.
  const describe = () => {
    const on = rows.filter(row => row.ariaCurrent).map(row => [...row.cells].map(wordsOf).filter(Boolean));
    write(about, on.length > 1 ? on.map(([name]) => name).join(", ") : on.flat().join(" · "));
  };
  const show = () => found[0]?.scrollIntoView({ block: "nearest", inline: "nearest" });
  const find = text => {
    const has = node => text && contains(node, text), names = new Set(rows.filter(has).flatMap(ids));
    found = boxes.filter(box => box.classList.toggle("n-hi", has(box) || ids(box).some(each => names.has(each))));
    write(about, text && `${found.length} found${found.length > 1 ? ": Enter for the next" : ""}`);
    show();
  };
  const next = ({ key }) => {
    if (key !== "Enter" || !found.length) return;
    found[0].dispatchEvent(new MouseEvent("click", { bubbles: true }));
    show();
    found.push(found.shift());
  };

  pane.before(toolbar(
    pressable(smaller, "Smaller"), pressable(larger, "Larger"), pressable(fit, "Fit"),
    searching("Find a node", find, { onkeydown: next }),
  ));
  pane.after(about);
  pane.closest(".nbc").addEventListener("n-on", describe);
  pane.onkeydown = ({ key }) => ({ "+": larger, "-": smaller, 0: fit })[key]?.();
  pane.onwheel = event => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(scale * 2 ** (-event.deltaY / 300));
  };
  pane.onmousemove = ({ buttons, movementX, movementY }) => {
    if (!buttons) return;
    dragged += Math.hypot(movementX, movementY);
    pane.scrollBy(-movementX, -movementY);
  };
  // The end of a drag is no click.
  pane.onclick = event => {
    if (dragged > 4) event.stopPropagation();
    dragged = 0;
  };
  // First view: as wide as fits, and legible, with the first boxes in view.
  (section.ontoggle = () => {
    if (pane.clientWidth && scale === 1) {
      zoom(Math.max(0.6, wide()));
      pane.scrollLeft = boxes[5].getBBox().x * scale - 120;
    }
  })();
};
