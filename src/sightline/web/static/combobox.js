// A text that finds what is meant while it is typed: fields of models and devices, and the palette.
const form = document.getElementById("ask");
const MOST = 80;
/** Texts before the last name of a list of devices: other devices, and a count. */
const COUNTED = /^(.*,\s*)?(?:([\d.]+)\s*x(?:\s+|$))?(.*)$/;
let entries = null;
let made = 0;

/** Every entry of the catalog: its kind, its name, what is said of it, and words that find it. */
export const catalog = () => (entries ??= fetch("/catalog/index.json").then((response) => response.json()));

/** Puts a device in the place of the last of a text, and keeps its count. */
export function withCount(text, device, usual = 8) {
  const [, others = "", count = usual, name] = COUNTED.exec(text);
  return `${others}${count}x ${device || name}`;
}

/** The rows that hold all words of a text, those first whose names begin with the last. */
function matching(rows, text) {
  const words = text.toLowerCase().split(/[\s/]+/).filter(Boolean);
  const last = words.at(-1) ?? "";
  const rank = (row) => (row.name === last ? 0 : row.name.startsWith(last) ? 1 : row.name.includes(last) ? 2 : 3);
  const found = rows.filter((row) => words.every((word) => row.words.includes(word)));
  return found.sort((a, b) => rank(a) - rank(b)).slice(0, MOST);
}

/**
 * Makes a combobox of a text and its list. `offers` returns the rows to choose from and what is looked for among them; `choose`
 * takes one up, or null where none is marked. A list that `stays` is open all the time and marks its first row. Returns what
 * opens the list.
 */
export function combobox(input, list, offers, choose, stays = false) {
  const number = (made += 1);
  let shown = [];
  let at = -1;
  list.id ||= `options-${number}`;
  list.role = "listbox";
  list.ariaLabel = "suggestions";
  for (const [name, value] of Object.entries({ role: "combobox", "aria-controls": list.id, "aria-autocomplete": "list", "aria-expanded": "false" })) {
    input.setAttribute(name, value);
  }
  const isOpen = () => input.getAttribute("aria-expanded") === "true";

  function mark(next) {
    at = next;
    [...list.children].forEach((option, index) => option.setAttribute("aria-selected", String(index === at)));
    const option = list.children[at];
    if (option) input.setAttribute("aria-activedescendant", option.id); else input.removeAttribute("aria-activedescendant");
    option?.scrollIntoView({ block: "nearest" });
  }

  function toggle(is) {
    input.setAttribute("aria-expanded", String(is));
    if (stays) list.hidden = !is; else if (is) list.showPopover({ source: input }); else list.hidePopover();
    if (!is) mark(-1);
  }

  async function open(text) {
    const [rows, asked] = await offers(text);
    if (document.activeElement !== input) return;
    shown = matching(rows, asked);
    list.replaceChildren(...shown.map((row, index) => {
      const option = document.createElement("li");
      const about = document.createElement("span");
      about.textContent = row.about;
      option.append(row.label ?? row.name, about);
      option.role = "option";
      option.id = `${list.id}-${index}`;
      return option;
    }));
    toggle(shown.length > 0);
    mark(stays ? 0 : shown.findIndex((row) => row.name === input.value));
  }

  function take(row) {
    if (!stays) toggle(false);
    choose(row);
  }

  input.addEventListener("input", () => open(input.value));
  input.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by) {
      event.preventDefault();
      if (isOpen()) mark((at + by + shown.length) % shown.length); else open("");
    } else if (event.key === "Enter" && isOpen()) {
      event.preventDefault();
      take(shown[at] ?? null);
    } else if (event.key === "Escape" && isOpen() && !stays) {
      event.preventDefault();
      event.stopPropagation();
      toggle(false);
    }
  });
  list.addEventListener("pointerdown", (event) => event.preventDefault());
  list.addEventListener("click", (event) => {
    const option = event.target.closest("li");
    if (option) take(shown[[...list.children].indexOf(option)]);
  });
  if (!stays) {
    input.addEventListener("click", () => { if (!isOpen()) open(""); });
    input.addEventListener("blur", () => toggle(false));
  }
  return open;
}

/** What a field offers: entries of the catalog, devices with the count that was typed, or a few words. */
function offersOf(input, words) {
  if (!input.dataset.entries) return (text) => [words.map((name) => ({ name, words: name.toLowerCase(), about: "" })), text];
  return async (text) => {
    const all = await catalog();
    if (input.dataset.entries === "models") return [all.filter((one) => one.kind === "models"), text];
    const kinds = input.dataset.entries === "clusters" ? ["devices", "clusters"] : ["devices"];
    const rows = all.filter((one) => kinds.includes(one.kind)).map((one) => {
      return one.kind === "devices" ? { ...one, label: withCount(text || input.value, one.name) } : one;
    });
    return [rows, COUNTED.exec(text)[3]];
  };
}

/** Makes a combobox of a field, which is judged when it is left, or by Enter or a choice. */
function equip(input) {
  const words = [...(input.list?.options ?? [])].map((one) => one.value);
  const list = document.createElement("ul");
  list.popover = "manual";
  list.className = "options";
  input.after(list);
  input.removeAttribute("list");
  input.dataset.settles = "";
  let settled = input.value;
  input.addEventListener("change", (event) => {
    // Leaving a field that Enter settled says nothing new.
    if (event.isTrusted && input.value === settled) event.stopImmediatePropagation();
    settled = input.value;
  });
  combobox(input, list, offersOf(input, words), (row) => {
    input.value = row ? (row.label ?? row.name) : input.value;
    if (input.value !== settled) input.dispatchEvent(new Event("change", { bubbles: true }));
  });
}

for (const input of form?.querySelectorAll("input[data-entries], input[list]") ?? []) equip(input);
