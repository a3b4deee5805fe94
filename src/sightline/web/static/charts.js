// Draws the specifications that come with an answer into their places, and gives each as a file.

/** Screens that get the narrow forms of charts. */
export const NARROW = matchMedia("(max-width: 560px)");
/** No style elements and no code made of text: the page's security policy allows neither. */
const OPTIONS = { actions: false, renderer: "svg", ast: true, defaultStyle: false, tooltip: { disableDefaultStyle: true } };

/** Draws what is visible in an element; what is folded is drawn when it is unfolded. */
export async function draw(within, isCurrent) {
  const texts = [...within.querySelectorAll("script.drawings")].map((one) => JSON.parse(one.textContent));
  const drawings = Object.assign({}, ...texts);
  const places = [...within.querySelectorAll(".drawn:empty")];
  await Promise.all(places.map((place) => {
    const specs = drawings[place.id];
    const fold = place.closest("details:not([open])");
    if (!specs) return null;
    if (fold) {
      fold.addEventListener("toggle", () => draw(within, isCurrent), { once: true });
      return null;
    }
    return drawOne(place, specs);
  }));
}

async function drawOne(place, [wide, narrow]) {
  const spec = NARROW.matches && narrow ? narrow : wide;
  const drawn = await window.vegaEmbed(place, spec, OPTIONS);
  const svg = place.querySelector("svg");
  svg?.setAttribute("aria-hidden", "true");
  files(place, drawn.view, spec);
}

function files(place, view, spec) {
  const figure = place.closest("figure");
  if (!figure || figure.querySelector(".files")) return;
  const bar = document.createElement("div");
  bar.className = "files";
  const asText = (text, kind) => URL.createObjectURL(new Blob([text], { type: kind }));
  const kinds = {
    SVG: () => view.toSVG().then((svg) => asText(svg, "image/svg+xml")),
    PNG: () => view.toImageURL("png", 2),
    CSV: async () => asText(csv(spec), "text/csv"),
  };
  for (const [kind, make] of Object.entries(kinds)) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = kind;
    button.setAttribute("aria-label", `save the chart as ${kind}`);
    button.addEventListener("click", async () => save(`${place.id}.${kind.toLowerCase()}`, await make()));
    bar.append(button);
  }
  figure.append(bar);
}

export function save(name, url) {
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
}

/** The rows that a specification holds, each list once. */
function csv(spec) {
  const lists = new Map();
  (function walk(node) {
    if (node === null || typeof node !== "object") return;
    if (!Array.isArray(node) && Array.isArray(node.data?.values)) lists.set(JSON.stringify(node.data.values), node.data.values);
    Object.values(node).forEach(walk);
  })(spec);
  const rows = [...lists.values()].flat();
  const heads = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const cell = (value) => {
    const text = value === undefined || value === null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [heads, ...rows.map((row) => heads.map((head) => row[head]))].map((line) => `${line.map(cell).join(",")}\n`).join("");
}
