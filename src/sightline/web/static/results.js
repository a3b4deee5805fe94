// Texts of an answer that can be copied and saved, and files of the whole answer.
import { save } from "./charts.js";
import { copy } from "./copying.js";

const answer = document.getElementById("answer");

function button(label, title, act) {
  const found = document.createElement("button");
  found.type = "button";
  found.textContent = label;
  found.setAttribute("aria-label", title);
  found.addEventListener("click", () => act(found));
  return found;
}

function equip(text) {
  if (text.previousElementSibling?.classList.contains("tools")) return;
  const name = text.dataset.file;
  const bar = document.createElement("div");
  bar.className = "tools";
  bar.append(button("Copy", `copy ${name}`, (own) => copy(own, text.textContent, text)), button("Save", `save ${name}`, () => {
    save(name.replaceAll("/", "-"), URL.createObjectURL(new Blob([text.textContent], { type: "text/plain" })));
  }));
  text.before(bar);
}

function equipAll() {
  for (const text of answer.querySelectorAll("pre[data-file]")) equip(text);
}

answer.addEventListener("answered", equipAll);
equipAll();
