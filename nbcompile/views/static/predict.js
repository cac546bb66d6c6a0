// Questions with choices to press: right or wrong is said at once, the answer unfolds, the score is kept.
// `listen`, `all`, ... are view.js's.
const nbPredict = list => {
  const score = spoken("n-quiet"), asked = [...list.children];
  asked.forEach(item => {
    const choices = [...item.querySelector("ol").children], right = Number(item.dataset.a);
    const answer = n => {
      item.dataset.r ??= Number(n === right);  // the first try counts
      choices.forEach((each, i) => { each.firstChild.className = i === right ? "n-ok" : i === n ? "n-bad" : ""; });
      item.querySelector("details").open = true;
      const tried = asked.filter(each => each.dataset.r), hits = tried.filter(each => each.dataset.r === "1");
      score.textContent = `${n === right ? "Right" : "No"}. ${hits.length} right of ${tried.length}, ${asked.length} questions in all.`;
    };
    choices.forEach((each, n) => {
      const button = pressable("", () => answer(n));
      button.append(...each.childNodes);
      each.append(button);
    });
  });
  list.after(score);
};
