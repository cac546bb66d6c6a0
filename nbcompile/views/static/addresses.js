// Deep links into a report: #s0-0.1-guards opens a section, #s0-0.1~n3 selects a node of a frame as well.
// Only reports have ids; the address follows what is selected, so that it can be copied.
const goTo = () => {
  const [place, words] = decodeURIComponent(location.hash.slice(1)).split("~"), target = document.getElementById(place);
  if (!target) return;
  unfold(target);
  target.scrollIntoView();
  all(target, "[data-n]").find(node => node.dataset.n === words)?.click();
};
document.addEventListener("click", event => {
  const node = event.target.closest("[data-f][id] [data-n]");
  if (node) history.replaceState(null, "", `#${node.closest("[data-f]").id}~${node.dataset.n}`);
});
addEventListener("hashchange", goTo);
addEventListener("DOMContentLoaded", goTo);  // what is selected is set up by then
