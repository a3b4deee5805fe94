// A text that finds what is meant while it is typed: fields of models and devices, and the palette.
import { made } from "./elements.js";

const form = document.getElementById("ask");
const MOST = 250;
/** A list of devices: those before the last, its count, and its name. */
const COUNTED = /^(.*,\s*)?(?:([\d.]+)\s*x(?:\s+|$))?(.*)$/;
let entries = null;
let lists = 0;

/** Every entry of the catalog: its kind, its name as `key`, what is said of it, and words that find it. */
export const catalog = () => (entries ??= fetch("/catalog/index.json").then((response) => response.json()));

/** Puts a device in the place of the last of a text, and keeps its count. */
export function withCount(text, device, usual = 8) {
  const [, others = "", count = usual, name] = COUNTED.exec(text);
  return `${others}${count}x ${device || name}`;
}

/** The rows that hold all words of a text, those first whose keys begin with the last. */
function matching(rows, text) {
  const words = text.toLowerCase().split(/[\s/]+/).filter(Boolean);
  const last = words.at(-1) ?? "";
  const rank = ({ key }) => (key === last ? 0 : key.startsWith(last) ? 1 : key.includes(last) ? 2 : 3);
  return rows.filter((row) => words.every((word) => row.words.includes(word))).sort((a, b) => rank(a) - rank(b)).slice(0, MOST);
}

/**
 * Makes a combobox of a text and its list. `offers` returns the rows to choose from and what is looked for among them; `choose`
 * takes one up, or nothing where none is marked. A list that `stays` is open all the time and marks its first row. Returns what
 * opens the list.
 */
export function combobox(input, list, offers, choose, stays = false) {
  let [shown, at, opening, isTyped] = [[], -1, 0, false];
  Object.assign(list, { id: `options-${lists += 1}`, role: "listbox", ariaLabel: "suggestions", className: "options" });
  Object.assign(input, { role: "combobox", ariaAutoComplete: "list", ariaExpanded: "false" });
  input.setAttribute("aria-controls", list.id);
  const isOpen = () => input.ariaExpanded === "true";

  function mark(next) {
    if (list.children[at]) list.children[at].ariaSelected = "false";
    at = next;
    const option = list.children[at];
    input.setAttribute("aria-activedescendant", option?.id ?? "");
    if (!option) return;
    option.ariaSelected = "true";
    option.scrollIntoView({ block: "nearest" });
  }

  function toggle(is) {
    input.ariaExpanded = String(is);
    if (stays) list.hidden = !is; else if (is) list.showPopover({ source: input }); else list.hidePopover();
    if (!is) mark(-1);
  }

  async function open(text) {
    const mine = (opening += 1);
    const [rows, words] = await offers(text);
    if (mine !== opening || document.activeElement !== input) return;
    shown = matching(rows, words);
    list.replaceChildren(...shown.map((row, index) => 
      made("li", { id: `${list.id}-${index}`, role: "option", ariaSelected: "false" }, row.name, made("span", {}, row.about))));
    toggle(shown.length > 0);
    mark(stays ? 0 : shown.findIndex((row) => row.name === input.value));
  }

  function take(row) {
    isTyped = false;
    if (!stays) toggle(false);
    choose(row);
  }

  input.addEventListener("input", () => { isTyped = true; open(input.value); });
  input.addEventListener("keydown", (event) => {
    const isDown = event.key === "ArrowDown";
    if (isDown || event.key === "ArrowUp") {
      if (isOpen()) mark((isDown ? at + 1 : Math.max(at, 0) - 1 + shown.length) % shown.length); else open(isTyped ? input.value : "");
    } else if (event.key === "Enter" && isOpen()) take(shown[at]);
    else if (event.key === "Escape" && isOpen() && !stays) { event.stopPropagation(); toggle(false); }
    else return;
    event.preventDefault();
  });
  list.addEventListener("pointerdown", (event) => event.preventDefault());
  list.addEventListener("click", (event) => take(shown[[...list.children].indexOf(event.target.closest("li"))]));
  if (stays) return open;
  input.addEventListener("click", () => {
    if (isOpen()) return;
    input.setSelectionRange(input.value.length - COUNTED.exec(input.value)[3].length, input.value.length);
    open("");
  });
  input.addEventListener("blur", () => { isTyped = false; toggle(false); });
  return open;
}

/** Makes a combobox of a field that names entries, which is judged when it is left, or by Enter or a choice. */
function equip(input) {
  const kinds = { models: ["models"], devices: ["devices"], clusters: ["devices", "clusters"] }[input.dataset.entries];
  const list = made("ul", { popover: "manual" });
  input.after(list);
  input.dataset.settles = "";
  let settled = input.value;
  const settle = () => { settled = input.value; };
  form.addEventListener("filled", settle);
  input.addEventListener("focus", () => { settle(); catalog(); });
  input.addEventListener("change", (event) => {
    // Leaving a field that Enter settled says nothing new.
    if (event.isTrusted && input.value === settled) event.stopImmediatePropagation();
    settle();
  });
  combobox(input, list, async (text) => {
    const found = (await catalog()).filter((one) => kinds.includes(one.kind));
    const named = (one) => (one.kind === "devices" ? withCount(text || input.value, one.key) : one.key);
    return [found.map((one) => ({ ...one, name: named(one) })), kinds[0] === "models" ? text : COUNTED.exec(text)[3]];
  }, (row) => {
    if (row) input.value = row.name;
    if (input.value !== settled) input.dispatchEvent(new Event("change", { bubbles: true }));
  });
}

for (const input of form?.querySelectorAll("input[data-entries]") ?? []) equip(input);
