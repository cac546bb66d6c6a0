// Makes a view interactive: links between source lines, graph boxes, table rows and kernel lines; filter.
// Everything is legible without it. It may run any number of times on a page: each output is set up once.
// The other files each add a part: what to do with the elements of one selector.
const parts = {};

// --- small things ------------------------------------------------------------------------------

const all = (root, selector) => [...root.querySelectorAll(selector)];
const first = (root, selector) => root.querySelector(selector);
const element = (name, properties, ...inside) => {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...inside);
  return made;
};
const pressable = (react, ...inside) => element("button", { type: "button", onclick: react }, ...inside);
const toolbar = (...inside) => element("div", { className: "n-tools" }, ...inside);
// What is written into it is also read aloud.
const spoken = look => element("p", { className: look, role: "status" });
const write = (node, text) => { node.textContent = text; };
const wordsOf = node => node.textContent.trim();
const contains = (node, text) => node.textContent.toLowerCase().includes(text);
const dataOf = box => JSON.parse(first(box, "script").textContent);
const searching = (label, find, properties) => {
  const field = element("input", { type: "search", placeholder: label, ariaLabel: label, ...properties });
  field.oninput = () => find(field.value.trim().toLowerCase());
  return field;
};
const unfold = node => {
  for (let up = node; up = up?.closest("details"); up = up.parentElement) up.open = true;
};
// data-n: the words by which something lights up, `n3..9` for a run of them. data-p: those that it selects, if fewer.
const known = new Map();
const expand = text => known.get(text) ?? known.set(text, text.split(" ").flatMap(word => {
  const [, begin, end] = /^n(\d+)\.\.(\d+)$/.exec(word) ?? [];
  return begin ? Array.from({ length: end - begin + 1 }, (_, i) => `n${+begin + i}`) : [word];
})).get(text);
const ids = node => expand(node.dataset.n);
const picks = node => expand(node.dataset.p ?? node.dataset.n);

// --- pictures: an <img> becomes the drawing itself, so that its boxes can be selected --------------

const openPicture = image => {
  const text = decodeURIComponent(image.src.replace(/.*?,/, ""));
  const drawing = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  if (drawing.localName !== "svg") return;
  all(drawing, "style,script").forEach(each => each.remove());
  image.replaceWith(Object.assign(drawing, { role: "group", ariaLabel: image.alt }));
};

// --- links: things that share a word of data-n, inside one frame -----------------------------------

const mark = (frame, name, words) => {
  const selected = new Set(words);
  for (const node of all(frame, "[data-n]")) {
    const on = node.classList.toggle(name, ids(node).some(each => selected.has(each)));
    if (name === "n-on") node.ariaCurrent = on || null;
  }
};

const COUNTED = {
  "source line": ".n-src code > *", instruction: "[data-s=bytecode] *", "graph node": "svg *", buffer: ".n-ir *",
  "kernel line": "[data-s=kernels] .n-code :not(.r)",
};
const describe = root => Object.entries(COUNTED).flatMap(([noun, selector]) => {
  const { length } = all(root, `${selector}.n-on`);
  return length ? `${length} ${noun}${length > 1 ? "s" : ""}` : [];
}).join(" · ");

// Brings what was selected into view inside its own pane; the page itself stays where it is.
const reveal = root => {
  for (const pane of all(root, ".n-code,.n-scroll,.n-graph")) {
    const node = first(pane, ".n-on"), by = (begin, end, room) => begin < 0 || end > room ? begin - room / 2 : 0;
    if (!node || pane.contains(document.activeElement)) continue;
    const box = node.getBoundingClientRect(), { left, top, width, height } = pane.getBoundingClientRect();
    pane.scrollBy(by(box.left - left, box.right - left, width), by(box.top - top, box.bottom - top, height));
  }
};

const setUpLinks = (root, status) => {
  const frames = all(root, "[data-f]"), linked = event => event.target.closest("[data-f] [data-n]");
  let chosen;
  const light = (name, node) => {
    for (const frame of frames) {
      const here = frame.contains(node);
      if (here || first(frame, `.${name}`)) mark(frame, name, here ? picks(node) : []);
    }
  };
  const select = node => {
    chosen = node === chosen ? null : node;  // again: nothing
    light("n-on", chosen);
    write(status, describe(root));
    root.dispatchEvent(new Event("n-on"));
    reveal(root);
  };
  root.onmouseover = root.onmouseleave = event => light("n-hi", linked(event));
  root.onclick = event => {
    const node = linked(event);
    if (node && getSelection().isCollapsed) select(node);
  };
  root.onkeydown = event => {
    const node = linked(event), { key } = event;
    if (key === "Escape") select(chosen);
    if (node !== event.target) return;
    if (key === "Enter" || key === " ") select(node);
    else if (key in MOVES) step(node, key);
    else return;
    event.preventDefault();
  };
};

// --- keys: each pane is one tab stop, arrows move from there ---------------------------------------

const PANES = ".n-code,svg,tbody";
const stops = pane => all(pane, "[data-n]").filter(each => !each.hidden);

const setUpKeys = root => {
  for (const pane of all(root, PANES)) stops(pane).forEach((each, index) => { each.tabIndex = index ? -1 : 0; });
  // What only scrolls is a stop itself.
  for (const pane of all(root, ".n-code,.n-scroll")) if (!first(pane, "[tabindex]")) pane.tabIndex = 0;
};

const MOVES = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, Home: -1e9, End: 1e9 };

// Left and right also visit the pieces of a line; all other keys go from line to line.
const lineOf = node => node.parentElement.closest("[data-n]") ?? node;
const step = (node, key) => {
  const every = stops(node.closest(PANES)), aside = /Left|Right/.test(key), by = MOVES[key];
  const nodes = aside ? every : every.filter(each => lineOf(each) === each);
  const next = nodes[nodes.indexOf(aside ? node : lineOf(node)) + by] ?? nodes.at(by > 0 ? -1 : 0);
  node.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
};

// --- tools: unfold, fold, filter ----------------------------------------------------------------------

const setUpTools = root => {
  const status = spoken("n-status"), tools = toolbar(), head = first(root, "header");
  const folds = all(root, "details"), usual = all(root, "details[open]"), rows = all(root, "tbody tr");
  const button = (text, open) => pressable(() => folds.forEach(each => { each.open = open(each); }), text);
  const filter = text => {
    for (const row of rows) {
      row.hidden = !contains(row, text);
      if (text && !row.hidden) unfold(first(row, "details") ?? row);
    }
    write(status, text && `${rows.filter(each => !each.hidden).length} found`);
  };
  if (folds.length) tools.append(button("Unfold all", () => true), button("Fold", each => usual.includes(each)));
  if (rows.length > 8) tools.append(searching("Filter rows", filter));
  tools.append(status);
  head ? head.after(tools) : root.prepend(tools);
  return status;
};

const setUp = root => {
  root.dataset.up = "1";
  all(root, ".n-graph img").forEach(openPicture);
  setUpLinks(root, setUpTools(root));
  setUpKeys(root);
  for (const selector in parts) all(root, selector).forEach(each => parts[selector](each));
};
const setUpAll = where => all(where, ".nbc:not([data-up])").forEach(setUp);
