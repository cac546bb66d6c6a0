// The same views as a module of a widget, for anywidget's hosts: the kernel sends a call, the form shows it and answers.
// The kernel's own answer is shown below the page's.
const render = ({ model, el }) => {
  const said = spoken("n-quiet");
  const show = () => {
    el.replaceChildren(document.createRange().createContextualFragment(model.get("page")));
    setUpAll(el);
    const box = first(el, ".n-what");
    if (!box) return;
    const answer = () => {
      const call = Object.entries(model.get("call") ?? {}).map(([r, value]) => [r, constant(value)]);
      if (call.length) box.nbAsk(Object.fromEntries(call));
      write(said, model.get("said"));
    };
    box.append(said);
    model.on("change:call", answer);
    answer();
  };
  model.on("change:page", show);
  show();
};
export default { render };
