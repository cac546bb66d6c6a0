// Makes a view interactive: links between source lines, graph boxes, table rows and kernel lines; filter.
// Everything is legible without it. It may run any number of times on a page: each output is set up once.

// --- small things ------------------------------------------------------------------------------

const element = (name, properties) => Object.assign(document.createElement(name), properties);
const listen = (node, event, ...react) => node.addEventListener(event, ...react);
const pressable = (text, react) => element("button", { type: "button", textContent: text, onclick: react });
// What is written into it is also read aloud.
const spoken = look => element("p", { className: look, role: "status" });
const all = (root, selector) => [...root.querySelectorAll(selector)];
const contains = (node, text) => node.textContent.toLowerCase().includes(text);
const searching = (label, find) => {
  const field = element("input", { type: "search", placeholder: label, ariaLabel: label });
  listen(field, "input", () => find(field.value.trim().toLowerCase()));
  return field;
};
// data-n: the words by which something lights up, `n3..9` for a run of them. data-p: those that it selects, if fewer.
const known = new Map();
const expand = text => known.get(text) ?? known.set(text, text.split(" ").flatMap(word => {
  const [, from, to] = /^n(\d+)\.\.(\d+)$/.exec(word) ?? [];
  return from ? Array.from({ length: to - from + 1 }, (_, i) => `n${Number(from) + i}`) : [word];
})).get(text);
const ids = node => expand(node.dataset.n);
const picks = node => expand(node.dataset.p ?? node.dataset.n);
const frameOf = node => node.closest("[data-f]");

// --- pictures: an <img> becomes the drawing itself, so that its boxes can be selected --------------

const openPicture = image => {
  const text = decodeURIComponent(image.src.slice(image.src.indexOf(",") + 1));
  const drawing = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  if (drawing.localName !== "svg") return;
  all(drawing, "style,script").forEach(each => each.remove());
  Object.assign(drawing, { role: "group", ariaLabel: image.alt });
  image.replaceWith(document.importNode(drawing, true));
};

// --- links: things that share a word of data-n, inside one frame -----------------------------------

const mark = (frame, name, words) => {
  const wanted = new Set(words);
  for (const node of all(frame, "[data-n]")) {
    const on = ids(node).some(each => wanted.has(each));
    node.classList.toggle(name, on);
    if (name === "n-on") node.ariaCurrent = on || null;
  }
};

const counted = (number, noun) => number ? [`${number} ${noun}${number === 1 ? "" : "s"}`] : [];

const COUNTED = {
  "source line": ".n-src code > *", instruction: "[data-s=bytecode] *", "graph node": "svg *", buffer: ".n-ir *",
  "kernel line": "[data-s=kernels] .n-code :not(.r)",
};
const describe = frame => Object.keys(COUNTED).flatMap(noun => counted(all(frame, `${COUNTED[noun]}.n-on`).length, noun)).join(" · ");

// Brings what was selected into view inside its own pane; the page itself stays where it is.
const reveal = frame => {
  for (const pane of all(frame, ".n-code,.n-scroll,.n-graph")) {
    const first = pane.querySelector(".n-on");
    if (!first || pane.contains(document.activeElement)) continue;
    const box = first.getBoundingClientRect(), room = pane.getBoundingClientRect();
    if (box.top < room.top || box.bottom > room.bottom) pane.scrollTop += box.top - room.top - room.height / 2;
    if (box.left < room.left || box.right > room.right) pane.scrollLeft += box.left - room.left - room.width / 2;
  }
};

const setUpLinks = (root, status) => {
  const frames = all(root, "[data-f]");
  const light = (chosen, words) => {
    for (const frame of frames) {
      mark(frame, "n-on", frame === chosen ? words : []);
      frame.dispatchEvent(new Event("n-selected"));
    }
    status.textContent = words.length ? describe(chosen) : "";
  };
  const select = node => {
    const frame = frameOf(node), words = picks(node), again = node.ariaCurrent && frame.dataset.on === `${words}`;
    frame.dataset.on = words;
    light(frame, again ? [] : words);
    reveal(frame);
  };
  const linked = event => {
    const node = event.target.closest("[data-n]");
    return node && frameOf(node) ? node : null;
  };
  listen(root, "mouseover", event => {
    const node = linked(event);
    for (const frame of frames) {
      if (node ? frame === frameOf(node) : frame.querySelector(".n-hi")) mark(frame, "n-hi", node ? picks(node) : []);
    }
  });
  listen(root, "mouseleave", () => all(root, ".n-hi").forEach(each => each.classList.remove("n-hi")));
  listen(root, "click", event => {
    const node = linked(event);
    if (node && getSelection().isCollapsed) select(node);
  });
  listen(root, "keydown", event => {
    if (event.key === "Escape") light(null, []);
    const node = linked(event);
    if (!node || node !== event.target) return;
    if (event.key === "Enter" || event.key === " ") select(node);
    else if (!step(node, event.key)) return;
    event.preventDefault();
  });
};

// --- keys: each pane is one tab stop, arrows go on from there ---------------------------------------

const PANES = ".n-code,svg,tbody";
const stops = pane => all(pane, "[data-n]").filter(each => !each.hidden);

const setUpKeys = root => {
  for (const pane of all(root, PANES)) stops(pane).forEach((each, index) => { each.tabIndex = index ? -1 : 0; });
  // What only scrolls is a stop itself.
  for (const pane of all(root, ".n-code,.n-scroll")) if (!pane.querySelector("[tabindex]")) pane.tabIndex = 0;
};

const MOVES = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, Home: -1e9, End: 1e9 };

// Left and right also visit the pieces of a line; all other keys go from line to line.
const lineOf = node => node.parentElement.closest("[data-n]") ?? node;
const step = (node, key) => {
  const every = stops(node.closest(PANES)), sideways = key === "ArrowLeft" || key === "ArrowRight";
  if (!(key in MOVES)) return false;
  const nodes = sideways ? every : every.filter(each => lineOf(each) === each);
  const next = nodes[Math.min(Math.max(nodes.indexOf(sideways ? node : lineOf(node)) + MOVES[key], 0), nodes.length - 1)];
  node.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
  return true;
};

// --- tools: unfold, fold, filter ----------------------------------------------------------------------

const setUpTools = root => {
  const tools = element("div", { className: "n-tools" });
  const status = spoken("n-status");
  const button = (text, open) => pressable(text, () => all(root, "details").forEach(each => { each.open = open(each); }));
  const usual = new Set(all(root, "details[open]"));
  if (root.querySelector("details")) tools.append(button("Unfold all", () => true), button("Fold", each => usual.has(each)));
  if (all(root, "tbody tr").length > 8) {
    tools.append(searching("Filter rows", text => filter(root, text, status)));
  }
  tools.append(status);
  const head = root.querySelector("header");
  head ? head.after(tools) : root.prepend(tools);
  return status;
};

const filter = (root, text, status) => {
  let found = 0;
  for (const row of all(root, "tbody tr")) {
    row.hidden = !contains(row, text);
    if (row.hidden || !text) continue;
    found += 1;
    for (let up = row.closest("details"); up && root.contains(up); up = up.parentElement.closest("details")) up.open = true;
  }
  status.textContent = text ? `${found} found` : "";
};

const setUp = root => {
  root.dataset.up = "1";
  all(root, ".n-graph img").forEach(openPicture);
  const status = setUpTools(root);
  setUpLinks(root, status);
  setUpKeys(root);
  all(root, ".n-graph:has(svg)").forEach(each => { if (all(each, "g").length > 12) nbGraph(each); });
  all(root, ".n-what").forEach(each => nbWhatIf.setUp(each));
  all(root, ".n-steps").forEach(each => nbSteps.setUp(each));
  all(root, ".n-ask").forEach(each => nbPredict(each));
};
const setUpAll = where => all(where, ".nbc:not([data-up])").forEach(setUp);
