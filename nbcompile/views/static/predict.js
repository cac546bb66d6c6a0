// Questions with choices to press: the page shows at once whether it is right, unfolds the answer, and counts the score.
parts[".n-questions"] = list => {
  const score = spoken("n-quiet"), questions = [...list.children];
  let tried = 0, hits = 0;
  for (const item of questions) {
    const choices = [...first(item, "ol").children], right = +item.dataset.a, details = first(item, "details");
    let isFirst = true;  // the first try counts
    const answer = n => {
      tried += isFirst;
      hits += isFirst && n === right;
      isFirst = false;
      details.open = true;
      choices.forEach((each, i) => { each.firstChild.className = i === right ? "n-ok" : i === n ? "n-bad" : ""; });
      write(score, `${n === right ? "Right" : "No"}. ${hits} right of ${tried}, ${questions.length} questions in all.`);
    };
    choices.forEach((each, n) => each.append(pressable(() => answer(n), ...each.childNodes)));
  }
  list.after(score);
};
