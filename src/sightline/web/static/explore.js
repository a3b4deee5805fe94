// A built-in study has settings, one of one's own a scenario with axes: fields of the other are neither shown nor sent.
// The scenario is sent all the same, because links to other views take it along.

const form = document.getElementById("ask");

function follow() {
  const isOwn = form.elements.namedItem("study").value === "own";
  for (const part of form.querySelectorAll("[data-own]")) part.hidden = !isOwn;
  for (const part of form.querySelectorAll("[data-built-in]")) part.hidden = isOwn;
  for (const set of form.querySelectorAll("fieldset[data-own], fieldset[data-built-in]")) set.disabled = set.hidden;
}

form.addEventListener("change", follow, { capture: true });
follow();
