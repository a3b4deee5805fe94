/** Makes an element of a kind with properties and what it holds. */
export function made(kind, values = {}, ...children) {
  const found = Object.assign(document.createElement(kind), values);
  found.append(...children);
  return found;
}
