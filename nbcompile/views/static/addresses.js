// Deep links into a report: #s0-0.1-guards opens a section, #s0-0.1~n3 selects a node of a frame as well.
// Only reports have ids; the address follows what is selected, so that it can be copied. `all` is view.js's.
const goTo = () => {
  const [place, words] = decodeURIComponent(location.hash.slice(1)).split("~");
  const target = place && document.getElementById(place);
  if (!target) return;
  for (let up = target; up; up = up.parentElement) if (up.localName === "details") up.open = true;
  target.scrollIntoView();
  if (words) all(target, "[data-n]").find(node => node.dataset.n === words)?.click();
};
document.addEventListener("click", event => {
  const node = event.target.closest("[data-n]"), frame = node?.closest("[data-f][id]");
  if (frame) history.replaceState(null, "", `#${frame.id}~${node.dataset.n}`);
});
addEventListener("hashchange", goTo);
addEventListener("DOMContentLoaded", goTo);  // what is selected is set up by then
