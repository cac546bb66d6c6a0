// The same views as a module of a widget, for anywidget's hosts: the kernel sends a call, the form shows it and answers.
// `setUpAll`, `spoken`, ... are view.js's; the kernel's own answer stands below the page's.
const render = ({ model, el }) => {
  const said = spoken("n-quiet");
  const show = () => {
    el.replaceChildren(document.createRange().createContextualFragment(model.get("page")));
    setUpAll(el);
    const box = el.querySelector(".n-what");
    if (!box) return;
    const answer = () => {
      if (model.get("call")) box.nbAsk(model.get("call"));
      said.textContent = model.get("said");
    };
    box.append(said);
    model.on("change:call", answer);
    answer();
  };
  model.on("change:page", show);
  show();
};
export default { render };
