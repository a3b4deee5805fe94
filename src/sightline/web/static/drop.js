// Files that are dropped on the page, pasted into it or chosen: the server tells what they are and where they are shown.
import { made } from "./elements.js";

const MEGA = 1e6;
const KEPT = "opened";
const form = document.getElementById("ask");
const button = document.querySelector("[data-open-file]");
const status = document.getElementById("status");

/** Says what was opened, or why it was not, in a line below the state of the page. */
function say(text, remarks = [], isBad = false) {
  document.getElementById("opened")?.remove();
  if (!text) return;
  const line = made("p", { id: "opened", role: "status", className: isBad ? "status bad" : "status" }, text);
  const told = made("summary", {}, `${remarks.length} remarks on how it was read`);
  if (remarks.length) line.append(made("details", {}, told, ...remarks.map((one) => made("div", {}, one))));
  status.after(line);
}

/** Sends a file with the scenario of the page, and goes to the address that shows it; `more` are further parameters. */
function openFile(file, more = {}) {
  const most = Number(button.dataset.most);
  if (file.size > most) {
    say(`${file.name} has ${(file.size / MEGA).toFixed(0)} MB; allowed here: ${(most / MEGA).toFixed(0)} MB, packed by gzip or not. The command line has no such bound.`, [], true);
    return;
  }
  const fields = form ? [...new FormData(form)].filter(([, value]) => String(value).trim()) : new URLSearchParams(location.search);
  const asked = new URLSearchParams({ name: file.name, view: document.querySelector("main").dataset.view, of: new URLSearchParams(fields), ...more });
  const sending = new XMLHttpRequest();
  sending.open("POST", `/open?${asked}`);
  sending.upload.onprogress = ({ loaded, total }) => say(`Reading ${file.name}: ${Math.round(100 * loaded / total)} % sent`);
  sending.onerror = () => say("The server does not answer: is `sightline ui` still running?", [], true);
  sending.onload = () => {
    const found = JSON.parse(sending.responseText);
    if (!found.address) { say(found.error, found.problems.slice(1), true); return; }
    sessionStorage.setItem(KEPT, JSON.stringify(found));
    location.assign(found.address);
  };
  sending.send(file);
}

const chooser = made("input", { type: "file" });
chooser.addEventListener("change", () => { if (chooser.files.length) openFile(chooser.files[0]); chooser.value = ""; });
button.addEventListener("click", () => chooser.click());

// A trace is sent as every file is that is opened; only in its own form it may be said to be of the scenario.
const traced = document.getElementById("trace");
traced?.removeAttribute("hidden");
traced?.addEventListener("submit", (event) => {
  event.preventDefault();
  openFile(traced.querySelector("#f-trace").files[0], traced.querySelector("#f-trace-of")?.checked ? { of_scenario: "yes" } : {});
});

const over = made("div", { className: "drop" }, "Drop to open");
const isFile = (event) => event.dataTransfer?.types.includes("Files");
document.addEventListener("dragover", (event) => { if (isFile(event)) { event.preventDefault(); document.body.append(over); } });
document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) over.remove(); });
document.addEventListener("drop", (event) => {
  if (!isFile(event)) return;
  event.preventDefault();
  over.remove();
  openFile(event.dataTransfer.files[0]);
});
document.addEventListener("paste", (event) => {
  const text = event.clipboardData.getData("text");
  if (event.target.matches("input, textarea, select") || !(event.clipboardData.files.length || text.trim())) return;
  openFile(event.clipboardData.files[0] ?? new File([text], "the pasted text"));
});

const found = JSON.parse(sessionStorage.getItem(KEPT) ?? "{}");
sessionStorage.removeItem(KEPT);
if (found.what && found.address === location.pathname + location.search) say(found.what, found.remarks);
for (const kind of ["change", "input"]) form?.addEventListener(kind, () => say(""));

/** A figure that somebody measured is kept in the address with the scenario that it is of. */
document.addEventListener("click", ({ target }) => {
  if (!form || !target.matches?.("[data-measured], [data-forgets]")) return;
  const fields = new URLSearchParams([...new FormData(form)].filter(([, text]) => text.trim()));
  const measured = [fields.get("anchor") ?? ""];
  fields.delete("anchor");
  const value = document.getElementById("f-measured")?.value.trim();
  if (target.matches("[data-measured]") && value) {
    measured.push(new URLSearchParams([...fields, [`measured.${document.getElementById("f-measured-figure").value}`, value]]));
    fields.set("anchor", measured.join("\n").trim());
  }
  if (fields.has("anchor") || target.matches("[data-forgets]")) location.search = fields;
});
