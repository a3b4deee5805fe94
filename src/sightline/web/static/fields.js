// Steps of numbers, and how many fields of a group nobody filled in.
import { withCount } from "./combobox.js";

const form = document.getElementById("ask");
/** A number with a unit, or a count of devices. */
const NUMBER = /^(\d*\.?\d+)(\s*[kKMBGT]?|\s*x\s.+)$/;

/** Doubles, halves or adds to a field's number; an empty one starts from what it comes to by itself. */
function step(input, by) {
  const said = input.value || /\d+(?:\.\d+)?[kKMBT]?/.exec(input.placeholder)?.[0] || "1";
  const [, digits, unit] = NUMBER.exec(input.dataset.entries && /^\w/.test(said) ? withCount(said, "", 1) : said) ?? [];
  if (!digits) return;
  const now = Number(digits);
  let next = by === "*2" ? now * 2 : by === "/2" ? now / 2 : Math.max(0, now + Number(by));
  if (Number.isInteger(now) && by === "/2" && !/^\s*[kKMBGT]/.test(unit)) next = Math.max(1, Math.floor(next));
  input.value = `${Number(next.toFixed(6))}${unit}`;
  input.dispatchEvent(new Event("change", { bubbles: true }));
}

function countEmpty() {
  for (const fold of form.querySelectorAll(".left-out")) {
    const fields = [...fold.parentElement.querySelectorAll(".field:not([hidden])")];
    fold.querySelector("span").textContent = fields.filter((one) => one.querySelector("select, input").value.trim() === "").length;
  }
}

if (form) {
  form.addEventListener("click", (event) => {
    const button = event.target.closest?.(".step");
    if (button) step(button.parentElement.querySelector("input"), button.dataset.by);
  });
  form.addEventListener("keydown", (event) => {
    // Escape closes what explains a label, not the form around it.
    if (event.key === "Escape" && form.querySelector(":popover-open")) event.stopPropagation();
    const button = event.target.closest(".control")?.querySelectorAll(".step")[["ArrowDown", "ArrowUp"].indexOf(event.key)];
    if (!button || event.target.role === "combobox") return;
    event.preventDefault();
    button.click();
  });
  for (const event of ["change", "filled"]) form.addEventListener(event, () => setTimeout(countEmpty));
}
