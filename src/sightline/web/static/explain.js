// A trace is sent as every file is that is opened; only here it may be said to be of the scenario.
import { openFile } from "./drop.js";

const form = document.getElementById("trace");
form.hidden = false;
form.addEventListener("submit", (event) => {
  event.preventDefault();
  openFile(form.querySelector("#f-trace").files[0], form.querySelector("#f-trace-of")?.checked ? { [form.dataset.ofScenario]: "yes" } : {});
});
