// What every view has: undo, and the tray of the last scenarios.
import "./combobox.js";
import "./drop.js";
import { made } from "./elements.js";
import "./fields.js";
import "./jobs.js";
import "./palette.js";

const KEPT = 8;
const STORE = "sightline-tray";
/** Options that say how a scenario is shown. */
const SHOWN = ["tab", "baseline", "go", "vary1", "values1", "vary2", "values2"];
/** Differences from the scenario at hand that a chip names; one with more is told by its sentence. */
const MOST_NAMED = 3;
const tray = document.getElementById("tray");
const [undo, redo] = ["undo", "redo"].map((name) => document.querySelector(`[data-${name}]`));

const isTyping = (element) => element?.matches("textarea") || (element?.matches("input") && element.value !== element.defaultValue);

function followHistory() {
  undo.disabled = !(globalThis.navigation?.canGoBack ?? history.length > 1);
  redo.disabled = !(globalThis.navigation?.canGoForward ?? true);
}

undo.addEventListener("click", () => history.back());
redo.addEventListener("click", () => history.forward());
document.addEventListener("keydown", (event) => {
  if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "z" && event.key.toLowerCase() !== "y") return;
  // A field that is being typed in has an undo of its own.
  if (isTyping(document.activeElement)) return;
  event.preventDefault();
  (event.shiftKey || event.key.toLowerCase() === "y" ? redo : undo).click();
});

const kept = () => JSON.parse(localStorage.getItem(STORE) ?? "[]");

/** The scenario at hand: the query of its address without what only says how it is shown. */
function atHand() {
  const asked = new URLSearchParams(history.state?.query ?? location.search);
  for (const name of SHOWN) asked.delete(name);
  return String(asked);
}

/** Keeps the scenario that was answered as the last one. */
function keep() {
  const words = document.getElementById("sentence")?.textContent.replaceAll(/\s+/g, " ").trim();
  const query = atHand();
  if (!words || !query) return;
  const others = kept().filter((one) => one.query !== query);
  localStorage.setItem(STORE, JSON.stringify([{ path: location.pathname, query, words }, ...others].slice(0, KEPT)));
  show();
}

const compared = (a, b) => `/compare?${new URLSearchParams({ a, b })}`;

/** What is other than in the scenario at hand, if that is little; what was measured is long. */
function differences(query) {
  const [one, now] = [new URLSearchParams(query), new URLSearchParams(atHand())];
  const keys = [...new Set([...one.keys(), ...now.keys()])].filter((key) => key !== "anchor" && one.get(key) !== now.get(key));
  const words = keys.map((key) => `${key.split(".").at(-1).replaceAll("_", " ")} ${one.get(key) ?? "auto"}`);
  return words.length && words.length <= MOST_NAMED ? words.join(", ") : "";
}

function chip({ path, query, words }) {
  const link = made("a", { href: `${path}?${query}`, title: words }, differences(query) || words);
  const against = { href: compared(query, atHand()), ariaLabel: `compare ${words} with the scenario at hand` };
  const found = made("span", { className: "chip", draggable: true }, link);
  if (query !== atHand()) found.append(made("a", against, "vs"));
  found.addEventListener("dragstart", (event) => event.dataTransfer.setData("text/x-scenario", query));
  found.addEventListener("dragover", (event) => event.preventDefault());
  found.addEventListener("drop", (event) => {
    event.preventDefault();
    const other = event.dataTransfer.getData("text/x-scenario");
    if (other && other !== query) location.assign(compared(other, query));
  });
  return found;
}

function show() {
  const last = kept();
  tray.hidden = last.length < 2;
  tray.replaceChildren(...last.map(chip));
}

document.addEventListener("answered", () => { keep(); followHistory(); });
addEventListener("storage", show);
addEventListener("pageshow", () => { if (document.querySelector("#answer dl.answer")) keep(); else show(); followHistory(); });
