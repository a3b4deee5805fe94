// A job that runs is looked at again every second, as long as somebody sees the page.
const EVERY_MS = 1000;
const job = document.getElementById("f-job");
const answer = document.getElementById("answer");

function isLive() {
  const state = answer.querySelector(".form-state");
  return state !== null && JSON.parse(state.textContent).live === true;
}

let wasLive = false;

function again() {
  // Nobody's selection of text is taken away.
  const isReading = !document.getSelection().isCollapsed;
  if (document.hidden || isReading || answer.hasAttribute("aria-busy")) return;
  const live = isLive();
  // A job that ended while it was looked at is looked at once more.
  if (live || wasLive) job.dispatchEvent(new Event("change", { bubbles: true }));
  wasLive = live;
}

setInterval(again, EVERY_MS);
