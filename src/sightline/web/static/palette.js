// Ctrl-K: views, actions of the page, models and devices for the scenario at hand, and all of the catalog, by their names.
import { catalog, combobox, withCount } from "./combobox.js";

const form = document.getElementById("ask");
/** Buttons that stand for one place of the page rather than for an action. */
const OF_A_PLACE = ".help, .step, [data-palette], [data-field], [role=tab]";

/** A row of the palette: what is read, what is said of it, what finds it, and what it does. */
const row = (name, about, act, words = "") => ({ name, about, act, words: `${name} ${about} ${words}`.toLowerCase() });

const views = () => [...document.querySelectorAll("a[data-view]")].map((link) => row(link.textContent.trim(), "view", () => link.click()));

function actions() {
  const seen = new Set();
  const found = [...document.querySelectorAll("button, a.button, [role=tab], [data-action]")];
  return found.flatMap((one) => {
    const name = (one.ariaLabel ?? one.textContent).replaceAll(/\s+/g, " ").trim();
    if (!name || seen.has(name) || one.disabled || one.closest("dialog") || one.matches(OF_A_PLACE) || !one.checkVisibility()) return [];
    seen.add(name);
    return [row(name, "action", () => one.click())];
  });
}

/** The field of the scenario at hand that a kind of entries belongs into; null where the page has none. */
function fieldOf(kind) {
  const control = form?.elements.namedItem({ models: "model", devices: "cluster", clusters: "cluster" }[kind] ?? "");
  return control && !control.closest("[hidden], fieldset:disabled") ? control : null;
}

function use(entry) {
  const control = fieldOf(entry.kind);
  if (!control) return [];
  const value = entry.kind === "devices" ? withCount(control.value, entry.name) : entry.name;
  return [row(`use ${value}`, entry.about, () => {
    // A pasted model would stand in its place.
    if (entry.kind === "models" && form.elements.namedItem("config")) form.elements.namedItem("config").value = "";
    control.value = value;
    control.dispatchEvent(new Event("change", { bubbles: true }));
  }, entry.words)];
}

const show = (entry) => row(entry.name, `catalog, ${entry.kind}`, () => {
  location.assign(`/catalog?${new URLSearchParams({ kind: entry.kind, name: entry.name })}`);
}, entry.words);

const dialog = document.createElement("dialog");
dialog.className = "palette";
dialog.ariaLabel = "Search";
const [input, list] = ["input", "ul"].map((name) => dialog.appendChild(document.createElement(name)));
input.placeholder = input.ariaLabel = "View, model, device, action or catalog entry";
list.className = "options";
document.body.append(dialog);

const open = combobox(input, list, async (text) => {
  const entries = await catalog();
  return [[...actions(), ...views(), ...entries.flatMap(use), ...entries.map(show)], text];
}, (chosen) => {
  if (!chosen) return;
  dialog.close();
  chosen.act();
}, true);

function start() {
  dialog.showModal();
  input.value = "";
  open("");
}

document.querySelector("[data-palette]").addEventListener("click", start);
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
document.addEventListener("keydown", (event) => {
  if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "k") return;
  event.preventDefault();
  if (!dialog.open) start();
});
