// The page follows its form: each change asks for the answer anew, draws it, and becomes the address.
import { draw, NARROW } from "./charts.js";
import { copy } from "./copying.js";
import { made } from "./elements.js";
import { followJob } from "./jobs.js";
import "./sorting.js";

const form = document.getElementById("ask");
const answer = document.getElementById("answer");
const status = document.getElementById("status");
/** Ends the addresses of links to other views: they bring a scenario along and ask for no work. */
const OPENED = "#ask";
let asking = null;
let waiting = 0;
/** The field that is being changed: its changes until it is left are one step back. */
let editing = null;
/** The question whose work is to begin, kept until that is answered: another may overtake it. */
let pressed = null;
const MOST_TRIES = 250;

/** Waits while something holds, five seconds at most. */
async function waitWhile(holds) {
  for (let tries = 0; holds() && tries < MOST_TRIES; tries += 1) await new Promise((done) => setTimeout(done, 20));
}

/** Whether something is held down that would not be clicked if it moved before it is let go. */
const isHeld = () => document.querySelector("button:active, summary:active, a:active") !== null;

/** The fields that say anything, as the query of an address. */
function query() {
  const found = new URLSearchParams();
  for (const [key, value] of new FormData(form)) {
    if (typeof value === "string" && value.trim()) found.append(key, value.trim());
  }
  return found;
}

/** Tells how the answer is; what nobody has to see is for screen readers alone. */
function say(text, isSeen = true) {
  if (status.textContent !== text) status.textContent = text;
  status.classList.toggle("unseen", !isSeen);
}

/** Fields that another one leaves no room for are neither shown nor sent; nor is a named model beside a pasted one. */
function followChoices() {
  const [named, pasted] = ["model", "config"].map((name) => form.elements.namedItem(name));
  if (named && pasted) named.disabled = pasted.value.trim() !== "";
  for (const field of form.querySelectorAll("[data-when]")) {
    const [key, ...values] = field.dataset.when.split("|");
    field.hidden = !values.includes(form.elements.namedItem(key).value);
    for (const control of field.querySelectorAll("input, select")) control.disabled = field.hidden;
  }
}

/** Puts a query into the form: what has no field of its own becomes a line of further keys, or an option of the view. */
function fill(asked) {
  for (const one of form.querySelectorAll("input[type=hidden][data-option]")) one.remove();
  const more = form.elements.namedItem("more");
  if (more) more.value = asked.get("more") ?? "";
  const task = form.elements.namedItem("workload.task");
  if (task) task.value = asked.get("workload.task") ?? task.options[0].value;
  followChoices();
  for (const control of form.elements) {
    if (!control.name || control === more || ["button", "submit"].includes(control.type)) continue;
    const value = asked.get(control.name);
    // What the task does not have keeps the value with which another one begins.
    if (control.disabled && value === null) continue;
    if (control.type === "radio") { control.checked = value === null ? control.defaultChecked : control.value === value; continue; }
    if (control.tagName === "SELECT" && value && ![...control.options].some((one) => one.value === value)) control.add(new Option(value));
    control.value = value ?? (control.tagName === "SELECT" ? (control.options[0]?.value ?? "") : "");
  }
  const named = new Set([...form.elements].map((one) => one.name));
  for (const [key, value] of asked) {
    if (named.has(key)) continue;
    if (key.includes(".") && more) more.value += `${more.value ? "\n" : ""}${key}: ${value}`; else setOption(key, value);
  }
  followChoices();
  form.dispatchEvent(new Event("filled"));
}

/** An option of the view that no field shows; an empty one goes. */
function setOption(name, value) {
  const control = form.elements.namedItem(name);
  if (control) { control.value = value; return; }
  const added = made("input", { type: "hidden", name, value });
  added.dataset.option = "";
  form.append(added);
}

function unfold(control) {
  for (let around = control.closest("details"); around; around = around.parentElement.closest("details")) around.open = true;
}

/** Opens what a field lies in, and goes to it. */
function goTo(key) {
  const control = controlOf(key);
  if (!control) return;
  openForm(true);
  unfold(control);
  if (!control.checkVisibility()) control.closest("fieldset").querySelector(".left-out").open = true;
  control.focus();
  control.select?.();
}

/** The form is a drawer where there is no room for it beside the answer. */
function openForm(is) {
  form.classList.toggle("open", is);
  document.querySelector("[data-edit]")?.setAttribute("aria-expanded", String(is));
}

/** The enabled control of a dotted key, or of the part of the scenario that it lies in. */
function controlOf(key) {
  for (let name = key; name; name = name.includes(".") ? name.slice(0, name.lastIndexOf(".")) : "") {
    const found = [...form.elements].find((one) => one.name === name && !one.disabled);
    if (found) return found;
  }
  return null;
}

function clearProblems() {
  for (const one of form.querySelectorAll(".field-problem")) one.textContent = "";
  for (const one of form.querySelectorAll("[aria-invalid]")) {
    one.removeAttribute("aria-invalid");
    one.removeAttribute("aria-describedby");
  }
}

/** Sentences stand next to the fields that they name; the others stay above the answer. */
function placeProblems(found) {
  const left = [];
  for (const one of found.querySelectorAll(".problem")) {
    const control = controlOf(one.dataset.problem);
    const place = control && document.getElementById(`${control.id}-problem`);
    if (!place || place.textContent) { left.push(one.textContent); continue; }
    place.textContent = one.textContent;
    control.setAttribute("aria-invalid", "true");
    control.setAttribute("aria-describedby", place.id);
    unfold(control);
  }
  for (const one of found.querySelectorAll(".problems li")) left.push(one.textContent);
  return left;
}

function showRemaining(sentences) {
  document.getElementById("problems")?.remove();
  const items = sentences.map((one) => made("li", {}, one));
  if (items.length) answer.before(made("ul", { id: "problems", className: "problems" }, ...items));
}

/** What the server tells the form beside an answer. */
const state = () => JSON.parse(answer.querySelector(".form-state")?.textContent ?? "{}");

/** What the framework and the defaults make of fields that nobody filled in. */
function tellForm() {
  const { resolved = {}, offers = {} } = form ? state() : {};
  for (const [key, text] of Object.entries(resolved)) {
    const control = controlOf(key);
    if (!control || control.name !== key) continue;
    const auto = control.querySelector('option[value=""]');
    if (auto) auto.textContent = `auto: ${text}`; else control.placeholder = `auto: ${text}`;
  }
  for (const [key, offered] of Object.entries(offers)) {
    for (const option of controlOf(key)?.options ?? []) {
      option.disabled = option.value !== "" && !offered.includes(option.value);
    }
  }
}

/** Draws the new answer out of sight and then puts it into the place of the old one, so that nothing jumps. */
async function show(found, isCurrent) {
  await draw(found);
  if (!isCurrent()) return;
  const opened = new Set([...answer.querySelectorAll("details[open] > summary")].map((one) => one.textContent));
  for (const one of found.querySelectorAll("details > summary")) {
    if (opened.has(one.textContent)) one.parentElement.open = true;
  }
  document.getElementById("job")?.remove();
  const focused = answer.contains(document.activeElement) ? document.activeElement.id : "";
  answer.replaceChildren(...found.childNodes);
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  tellForm();
  await draw(answer);
  answer.dispatchEvent(new CustomEvent("answered", { bubbles: true }));
}

/**
 * Asks for the answer to the fields as they are now. An answer that a newer question overtook is dropped. `step` begins a
 * new entry of the browser's history, which Back returns from.
 */
async function ask(step = false) {
  asking?.abort();
  clearTimeout(waiting);
  waiting = 0;
  const mine = new AbortController();
  asking = mine;
  const isCurrent = () => asking === mine;
  const asked = form ? query() : new URLSearchParams(location.search);
  const starts = pressed === String(asked);
  if (!starts) pressed = null;
  const hash = starts && location.hash === OPENED ? "" : location.hash;
  const address = `${location.pathname}${asked.size ? `?${asked}` : ""}${hash}`;
  const isNew = step && String(asked) !== history.state?.query;
  history[isNew ? "pushState" : "replaceState"]({ query: String(asked) }, "", address);
  answer.setAttribute("aria-busy", "true");
  const later = setTimeout(() => isCurrent() && say("Working ..."), 400);
  try {
    const response = await fetch(`${location.pathname}?${asked}&fragment=1${NARROW.matches ? "" : "&wide=1"}`, { signal: mine.signal });
    const found = made("div", { innerHTML: await response.text() });
    await waitWhile(() => isCurrent() && isHeld());
    if (!isCurrent()) return;
    if (starts) pressed = null;
    remember(asked);
    shareScenario(found);
    const told = found.querySelector("template.sentence");
    if (told) document.getElementById("sentence")?.replaceChildren(told.content);
    if (form) clearProblems();
    if (response.ok) {
      showRemaining([]);
      const job = found.querySelector("form.job");
      // What was found before work was stopped is shown below it.
      const isAnswered = found.querySelector("[data-answers]") !== null;
      if (!job || isAnswered) await show(found, isCurrent);
      if (!isCurrent()) return;
      if (job) showJob(job, starts);
      answer.classList.toggle("stale", !isAnswered);
      say(job ? "" : "The answer is up to date.", false);
      fillLater(isCurrent, 300).catch(() => {});
    } else {
      const sentences = form ? placeProblems(found) : [found.textContent.trim()];
      showRemaining(sentences);
      answer.classList.add("stale");
      say("Something has to be corrected; the last answer is still shown.");
    }
    document.documentElement.dataset.answered = String(Number(document.documentElement.dataset.answered ?? 0) + 1);
  } catch (error) {
    if (error.name === "AbortError" || !isCurrent()) return;
    answer.classList.add("stale");
    say("The server does not answer: is `sightline ui` still running?");
  } finally {
    clearTimeout(later);
    if (isCurrent()) answer.removeAttribute("aria-busy");
  }
}

/** Long work stands above the answer before it, until it is done. */
function showJob(job, starts) {
  const place = document.getElementById("job") ?? made("div", { id: "job" });
  answer.before(place);
  place.replaceChildren(job);
  followJob(place, ask, starts);
}

/** Links to other views take the scenario along, each what it takes of it. */
function shareScenario(found) {
  const queries = JSON.parse(found.querySelector(".links")?.textContent ?? "{}");
  for (const link of document.querySelectorAll("a[data-view]")) {
    if (link.dataset.view in queries) link.search = String(withLast(link.dataset.view, new URLSearchParams(queries[link.dataset.view])));
  }
}

/** A view of another task shows its own last scenario again, for the model and the cluster at hand. */
function withLast(view, taken) {
  const last = new URLSearchParams(sessionStorage.getItem(`last-${view}`) ?? "");
  if (taken.has("workload.task") || !last.size) return taken;
  for (const key of ["model", "config", "cluster"]) last.delete(key);
  for (const [key, value] of taken) last.set(key, value);
  return last;
}

/** Remembers what this tab of the browser asked this view last. */
const remember = (asked) => sessionStorage.setItem(`last-${location.pathname.slice(1)}`, String(asked));

function soon(milliseconds, step = false) {
  clearTimeout(waiting);
  waiting = setTimeout(() => { waiting = 0; ask(step); }, milliseconds);
}

/** Takes up what a control says; its first change begins a step, those that follow until it is left do not. */
function changed(control, isSettled) {
  const steps = editing !== control;
  editing = isSettled ? null : control;
  soon(isSettled ? 0 : 250, steps);
}

const isAsking = () => waiting !== 0 || answer.hasAttribute("aria-busy");

if (form) {
  followChoices();
  for (const [key, value] of new URLSearchParams(location.search)) {
    if (!key.includes(".") && !form.elements.namedItem(key)) setOption(key, value);
  }
  history.replaceState({ query: String(query()) }, "");
  document.addEventListener("change", (event) => {
    const control = event.target;
    if (control.form !== form || control.dataset.slides) return;
    if (control.dataset.clears) setOption(control.dataset.clears, "");
    followChoices();
    changed(control, true);
  });
  document.addEventListener("input", (event) => {
    const control = event.target;
    if (control.dataset.slides) { slide(control); return; }
    if (control.form === form && control.tagName !== "SELECT" && !("settles" in control.dataset)) changed(control, false);
  });
  form.addEventListener("submit", (event) => { event.preventDefault(); openForm(false); pressed = String(query()); soon(0); });
  addEventListener("popstate", (event) => {
    editing = null;
    fill(new URLSearchParams(event.state?.query ?? location.search));
    soon(0);
  });
}

/** A slider of a sweep sets the field of the scenario to one of its values. */
function slide(slider) {
  const control = controlOf(slider.dataset.slides);
  const value = slider.dataset.values.split(",")[Number(slider.value)]?.trim();
  if (!control || value === undefined || control.value === value) return;
  control.value = value;
  changed(slider, false);
}

/** Shows another address of this view without leaving the page. */
function showAddress(search) {
  const asked = new URLSearchParams(search);
  for (const one of form.querySelectorAll("[data-option]")) if (!asked.has(one.name)) asked.set(one.name, one.value);
  fill(asked);
  soon(0, true);
}

const isPlain = (event) => event.button === 0 && !(event.ctrlKey || event.metaKey || event.shiftKey);

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (link && isPlain(event) && form && !link.hasAttribute("download") && link.origin === location.origin) {
    if (link.pathname === location.pathname && answer.contains(link)) {
      event.preventDefault();
      showAddress(link.search);
    } else if (link.dataset.view && isAsking()) {  // it is to have what was just typed
      event.preventDefault();
      waitWhile(isAsking).then(() => location.assign(link.href));
    }
  }
  const button = event.target.closest?.("button");
  if (!button) return;
  if (button.matches("[data-copy-link]")) copy(button, location.href);
  if (!form) return;
  if ("pin" in button.dataset) {
    const here = String(new URLSearchParams([...query()].filter(([key]) => key.includes(".") || ["model", "cluster", "config", "more"].includes(key))));
    setOption("baseline", button.dataset.pin === "here" ? here : button.dataset.pin);
    soon(0, true);
  }
  if (button.dataset.field) goTo(button.dataset.field);
  if (button.matches("[data-edit]")) openForm(!form.classList.contains("open"));
});

document.addEventListener("keydown", (event) => {
  const tab = event.target.closest?.('[role="tab"]');
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (tab && by) {
    const tabs = [...tab.parentElement.children];
    const next = tabs[(tabs.indexOf(tab) + by + tabs.length) % tabs.length];
    next.focus();
    next.click();
  }
  if (event.key === "Escape" && form) openForm(false);
});

/** Parts of an answer that take longer come after it, once nobody types any more: they would hold up the next answer. */
async function fillLater(isCurrent, milliseconds) {
  await new Promise((done) => setTimeout(done, milliseconds));
  if (!isCurrent()) return;
  for (const place of answer.querySelectorAll("[data-later]")) {
    const response = await fetch(place.dataset.later + (NARROW.matches ? "" : "&wide=1"));
    const html = await response.text();
    if (!isCurrent() || !place.isConnected || !response.ok) return;
    place.innerHTML = html;
    await draw(place);
  }
}

/** An answer that changes by itself is asked for again while somebody sees it, and once more after its end. */
let wasLive = false;
setInterval(() => {
  const isRead = document.hidden || !getSelection().isCollapsed;
  const isLive = state().live === true;
  if (isRead || isAsking() || !(isLive || wasLive)) return;
  wasLive = isLive;
  ask();
}, 1000);

NARROW.addEventListener("change", () => ask());
tellForm();
if (form && location.search) remember(query());
shareScenario(answer);
await draw(answer);
// A link to work that is not done yet does it; a view that was only opened, alone or from another one, does not.
const job = answer.querySelector("form.job");
const isAsked = location.search !== "" && location.hash !== OPENED;
if (job) showJob(job, isAsked && ["new", "interrupted"].includes(job.dataset.state));
fillLater(() => asking === null, 0).catch(() => {});
document.documentElement.dataset.drawn = "1";
