// Tables whose cells know their figures are sorted by a press on a heading; what is not known comes last.
import { made } from "./elements.js";

const answer = document.getElementById("answer");

function value(row, column) {
  const { dataset, textContent } = row.cells[column];
  return "value" in dataset ? Number(dataset.value) : textContent.trim();
}

function sort(table, heading) {
  const sign = heading.ariaSort === "ascending" ? -1 : 1;
  for (const other of heading.parentElement.children) other.removeAttribute("aria-sort");
  heading.ariaSort = sign > 0 ? "ascending" : "descending";
  const rows = [...table.tBodies[0].rows].map((row) => [value(row, heading.cellIndex), row]);
  const compare = (a, b) => (Number.isFinite(a) && Number.isFinite(b) ? a - b : `${a}`.localeCompare(b, [], { numeric: true }));
  rows.sort(([a], [b]) => (a === "-") - (b === "-") || sign * compare(a, b));
  table.tBodies[0].append(...rows.map(([, row]) => row));
}

function equip() {
  for (const heading of answer.querySelectorAll("table:has([data-value]) th:not(:has(.sort))")) {
    const onclick = () => sort(heading.closest("table"), heading);
    heading.append(made("button", { type: "button", className: "sort", onclick }, ...heading.childNodes));
  }
}

answer.addEventListener("answered", equip);
equip();
