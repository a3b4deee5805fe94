// Texts that can be copied and saved, and what buttons say of it.
import { save } from "./charts.js";
import { made } from "./elements.js";

const SAYS_MS = 1500;
const answer = document.getElementById("answer");

/** Copies a text; where the browser does not allow it, the element that shows it is selected for the reader to copy. */
export async function copy(button, text, shownIn = null) {
  const said = button.dataset.says ??= button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    if (shownIn) getSelection().selectAllChildren(shownIn);
    button.textContent = shownIn ? "Selected: press Ctrl+C" : "The browser does not allow it";
  }
  setTimeout(() => { button.textContent = said; }, SAYS_MS);
}

function equip() {
  for (const text of answer.querySelectorAll("pre[data-file]:not(.tools + *)")) {
    const name = text.dataset.file;
    const copies = made("button", { type: "button", ariaLabel: `copy ${name}`, onclick: () => copy(copies, text.textContent, text) }, "Copy");
    const saves = made("button", { type: "button", ariaLabel: `save ${name}` }, "Save");
    saves.onclick = () => save(name.replaceAll("/", "-"), URL.createObjectURL(new Blob([text.textContent], { type: "text/plain" })));
    text.before(made("div", { className: "tools" }, copies, saves));
  }
}

answer.addEventListener("answered", equip);
equip();
