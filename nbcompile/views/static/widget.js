// The same views as a module of a widget, for anywidget's hosts: the kernel sends a call, the form shows it and its result.
// The kernel's own result is shown below the page's.
const render = ({ model, el }) => {
  const result = spoken("n-quiet");
  const show = () => {
    el.replaceChildren(document.createRange().createContextualFragment(model.get("page")));
    setUpAll(el);
    const box = first(el, ".n-what");
    if (!box) return;
    const answer = () => {
      const call = Object.entries(model.get("call") ?? {}).map(([r, value]) => [r, constant(value)]);
      if (call.length) box.nbQuery(Object.fromEntries(call));
      write(result, model.get("result"));
    };
    box.append(result);
    model.on("change:call", answer);
    answer();
  };
  model.on("change:page", show);
  show();
};
export default { render };
