// What buttons copy, and what they say of it.
const SAYS_MS = 1500;

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
