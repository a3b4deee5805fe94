// A built-in study has settings, one of one's own a scenario with axes: fields of the other are neither shown nor sent.

const form = document.getElementById("ask");
/** A scenario that somebody stated is sent with every study, because links to other views take it along. */
let isStated = new URLSearchParams(location.search).has("model") || new URLSearchParams(location.search).has("config");

function follow() {
  const isOwn = form.elements.namedItem("study").value === "own";
  isStated ||= isOwn;
  for (const part of form.querySelectorAll("[data-own], [data-built-in]")) {
    part.hidden = "own" in part.dataset !== isOwn;
    part.disabled = part.hidden && !("scenario" in part.dataset && isStated);
  }
}

form.addEventListener("change", follow, { capture: true });
follow();
