// A job that runs is looked at again every second, as long as somebody sees the page.
const EVERY_MS = 1000;
const form = document.getElementById("ask");
const answer = document.getElementById("answer");

function isLive() {
  const state = answer.querySelector(".form-state");
  return state !== null && JSON.parse(state.textContent).live === true;
}

function again() {
  // Nobody's selection of text is taken away.
  const isReading = !document.getSelection().isCollapsed;
  if (isLive() && !document.hidden && !isReading && !answer.hasAttribute("aria-busy")) {
    form.dispatchEvent(new Event("change"));
  }
}

setInterval(again, EVERY_MS);
