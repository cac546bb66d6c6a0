// The theme's buttons that unfold the pages below a page show only an arrow: screen readers need a name.
document.addEventListener("DOMContentLoaded", () => {
  for (const summary of document.querySelectorAll("nav details > summary")) {
    const link = summary.closest("li")?.querySelector("a");
    if (!summary.textContent.trim()) summary.setAttribute("aria-label", `Pages below ${link?.textContent.trim() || "this one"}`);
  }
});
