// Ctrl-K: views, actions of the page, models and devices for the scenario at hand, and all of the catalog, by their names.
import { catalog, combobox, withCount } from "./combobox.js";
import { made } from "./elements.js";

const form = document.getElementById("ask");
const PRESSED = "button, a.button, a[role=tab], #answer a[href^='/plan?'], [data-action]";
/** Buttons that stand for one place of the page rather than for an action. */
const OF_A_PLACE = "dialog *, .help, .step, [data-palette], [data-field], :disabled";
const FIELDS = { models: "model", devices: "cluster", clusters: "cluster" };

/** A row of the palette: what is read, what is said of it, what it does, and what finds it. */
function row(name, about, act, { key = name.toLowerCase(), words = "" } = {}) {
  return { name, about, act, key, words: `${name} ${about} ${words}`.toLowerCase() };
}

/** What can be pressed and seen, once by each name. */
function actions() {
  const found = [...document.querySelectorAll(PRESSED)].filter((one) => !one.matches(OF_A_PLACE) && one.checkVisibility());
  const named = new Map(found.map((one) => [(one.ariaLabel ?? one.textContent).replaceAll(/\s+/g, " ").trim(), one]).reverse());
  return [...named].reverse().map(([name, one]) => row(name, one.title === name ? "action" : one.title || one.role || "action", () => one.click()));
}

/** Puts an entry into the scenario at hand, where the page has one. */
function use(entry) {
  const control = form?.elements.namedItem(FIELDS[entry.kind] ?? "");
  if (!control || control.closest("[hidden], fieldset:disabled")) return [];
  const value = entry.kind === "devices" ? withCount(control.value, entry.key) : entry.key;
  return [row(`use ${value}`, entry.about, () => {
    // A pasted model would stand in its place.
    if (entry.kind === "models") form.elements.namedItem("config").value = "";
    control.value = value;
    control.dispatchEvent(new Event("change", { bubbles: true }));
  }, entry)];
}

const SOUGHT = "View, model, device, action or catalog entry";
const [input, list] = [made("input", { placeholder: SOUGHT, ariaLabel: SOUGHT }), made("ul")];
const dialog = made("dialog", { className: "palette", ariaLabel: "Search" }, input, list);
document.body.append(dialog);

const open = combobox(input, list, async (text) => {
  const entries = await catalog();
  const views = [...document.querySelectorAll("nav a[data-view]")].map((link) => row(link.textContent.trim(), "view", () => link.click()));
  const shown = entries.map((one) => row(one.key, `catalog, ${one.kind}`, () => {
    location.assign(`/catalog?${new URLSearchParams({ kind: one.kind, name: one.key })}`);
  }, one));
  return [[...actions(), ...views, ...entries.flatMap(use), ...shown], text];
}, (chosen) => {
  dialog.close();
  chosen?.act();
}, true);

function start() {
  if (!dialog.open) dialog.showModal();
  input.value = "";
  open("");
}

document.querySelector("[data-palette]").addEventListener("click", start);
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
document.addEventListener("keydown", (event) => {
  if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "k") return;
  event.preventDefault();
  start();
});
