// Long work: started, followed and stopped from the view that asked for it, and seen from any other in the header.
import { made } from "./elements.js";

const SILENT = "The server does not answer; what is finished is kept. This goes on once `sightline ui` runs again.";
/** Milliseconds between two looks: at work of this view, at that of another, and at a server that does not answer. */
const OWN_MS = 250;
const OTHER_MS = 1000;
const SILENT_MS = 2000;
/** Work that this view shows, by id: what is told how far it is, or that the server does not answer. */
const followed = new Map();
/** What the header shows, by id. */
const shown = new Map();
let next = 0;
let looking = 0;
const others = new BroadcastChannel("sightline-jobs");
others.onmessage = () => look();

/** Asks how far all work is, and again as long as some of it runs. */
async function look() {
  clearTimeout(next);
  looking += 1;
  const mine = looking;
  const ids = new Set([...followed.keys(), ...[...shown].filter(([, one]) => !one.job.ended).map(([id]) => id)]);
  let jobs = null;
  try {
    const response = await fetch(`/jobs?${new URLSearchParams([...ids].map((id) => ["id", id]))}`);
    if (response.ok) jobs = await response.json();
  } catch { /* the server does not answer */ }
  if (mine !== looking) return;
  for (const [id, told] of [...followed]) told(jobs && (jobs.find((job) => job.id === id) ?? null), jobs === null);
  if (jobs) list(jobs);
  place.querySelector(".problem")?.toggleAttribute("hidden", jobs !== null);
  const runs = followed.size > 0 || [...shown.values()].some((one) => !one.job.ended);
  if (runs) next = setTimeout(look, jobs === null ? SILENT_MS : followed.size ? OWN_MS : OTHER_MS);
}

function bar(element, share) {
  if (share === null) element.removeAttribute("value"); else element.value = share;
}

const place = document.getElementById("jobs");

/** Shows jobs in the header; a job keeps its element, so that nothing is taken from below a pointer. */
function list(jobs) {
  const before = new Map(shown);
  shown.clear();
  for (const job of jobs) {
    const known = before.get(job.id);
    // The server that began it was ended, and another one knows no more of it than its id.
    const named = job.address || !known ? job : { ...job, name: known.job.name, address: known.job.address };
    // This view shows its own work above its answer.
    const isOwn = document.querySelector(`form.job[data-job="${job.id}"]`) !== null;
    if (!isOwn && (!job.ended || named.address)) shown.set(job.id, { job: named, item: known?.item ?? itemOf(named) });
  }
  if (!shown.size) { place.replaceChildren(); return; }
  if (!place.firstChild) {
    const says = made("p", { className: "problem", textContent: SILENT, hidden: true });
    place.append(made("details", { className: "menu jobs" }, made("summary"), made("div", {}, says, made("ul"))));
  }
  const count = { run: 0, done: 0 };
  for (const { job, item } of shown.values()) {
    count[job.ended ? "done" : "run"] += 1;
    item.querySelector(".faint").textContent = job.words;
    bar(item.querySelector("progress"), job.share);
    for (const one of item.querySelectorAll("progress, button")) one.hidden = job.ended;
    item.querySelector("button").disabled = job.state === "stopping";
  }
  const words = [count.run && `${count.run} running`, count.done && `${count.done} ended`];
  place.querySelector("summary").textContent = words.filter(Boolean).join(", ");
  const items = [...shown.values()].map((one) => one.item);
  const ul = place.querySelector("ul");
  if (items.some((item, at) => ul.children[at] !== item) || items.length !== ul.children.length) ul.replaceChildren(...items);
}

function itemOf(job) {
  const name = job.address ? made("a", { href: job.address, textContent: job.name }) : made("b", { textContent: job.name });
  const stop = made("button", { type: "button", textContent: "Stop", ariaLabel: `stop ${job.name}`, onclick: () => end(job.id) });
  const progress = made("progress", { max: 1, ariaLabel: `how far ${job.name} is` });
  return made("li", {}, name, progress, made("span", { className: "faint" }), stop);
}

async function end(id, forget = "") {
  await fetch(`/jobs/${id}${forget}`, { method: "DELETE" }).catch(() => {});
  look();
}

/** The work that began by itself, which ends where its question is not asked any more. */
let byItself = "";

/** What is said of work that nobody asked for. */
function notBegun() {
  const button = document.querySelector("#ask button[type=submit]")?.textContent.trim();
  return button ? `Nothing runs yet. Say in the form what it is about, then press \u201c${button}\u201d.` : "Nothing runs yet.";
}

/** Follows the job whose form is in an element; `again` shows what it found. `starts` begins it at once. */
export function followJob(within, again, starts) {
  const form = within.querySelector("form.job");
  if (!form) return;
  const id = form.dataset.job;
  const progress = form.querySelector("progress");
  const says = form.querySelector(".job-says");
  const stop = form.querySelector(".job-stop");
  // The button of the page's form begins it; the one here is for browsers without scripts.
  form.querySelector('button[type="submit"]').remove();

  function show(isRunning) {
    progress.hidden = !isRunning;
    stop.hidden = !isRunning;
  }

  function say(sentence, isBad) {
    says.textContent = sentence;
    says.classList.toggle("bad", isBad);
  }

  function tell(job, isSilent = false) {
    if (!form.isConnected || (!job && !isSilent)) { followed.delete(id); return; }
    if (isSilent) { say(SILENT, true); return; }
    bar(progress, job.share);
    say(job.words, job.failed);
    show(!job.ended);
    stop.disabled = job.state === "stopping";
    if (!job.ended) return;
    followed.delete(id);
    if (job.state === "done" || job.state === "cancelled") again();
  }

  function follow() {
    followed.set(id, tell);
    look();
  }

  async function start() {
    say("Starting ...", false);
    try {
      const response = await fetch(form.getAttribute("action"), { method: "POST", headers: { accept: "application/json" } });
      const job = await response.json();
      others.postMessage(id);
      // Another form of the same work was shown meanwhile, which has not begun as far as that knows.
      if (!form.isConnected && document.querySelector(`form.job[data-job="${id}"]`)) again();
      else if (!response.ok) say(job.error, true);
      else if (job.ended) tell(job); else follow();
    } catch {
      say("The server does not answer: is `sightline ui` still running?", true);
    }
  }

  stop.addEventListener("click", () => end(id));
  const { state, begins } = form.dataset;
  const runs = ["waiting", "running", "stopping"].includes(state);
  show(runs);
  if (byItself && byItself !== id) end(byItself, "?forget");
  byItself = begins === undefined ? "" : id;
  if (runs) follow(); else if (starts || (byItself && state === "new")) start();
  else if (state === "new") say(notBegun(), false);
}

document.addEventListener("visibilitychange", () => { if (!document.hidden) look(); });
look();
