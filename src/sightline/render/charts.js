// Draws the specifications that come with a page into their places, and gives each as a file. Reports and the local
// page use it both.

/** Screens that get the narrow forms of charts. */
export const NARROW = matchMedia("(max-width: 560px)");
/** No style elements and no code made of text: the local page's security policy allows neither. */
const OPTIONS = { actions: false, renderer: "svg", ast: true, defaultStyle: false, tooltip: { disableDefaultStyle: true } };

/** Draws what is visible in an element; what is folded is drawn when it is unfolded. */
export async function draw(within) {
  const texts = [...within.querySelectorAll("script.drawings")].map((one) => JSON.parse(one.textContent));
  const drawings = Object.assign({}, ...texts);
  const places = [...within.querySelectorAll(".drawn:empty")];
  await Promise.all(places.map((place) => {
    const specs = drawings[place.id];
    const fold = place.closest("details:not([open])");
    if (!specs) return null;
    if (fold) {
      fold.addEventListener("toggle", () => draw(within), { once: true });
      return null;
    }
    return drawOne(place, specs);
  }));
}

async function drawOne(place, [wide, narrow]) {
  const spec = NARROW.matches && narrow ? narrow : wide;
  const drawn = await window.vegaEmbed(place, spec, OPTIONS);
  // The element around it says in words what it shows.
  place.querySelector("svg")?.setAttribute("aria-hidden", "true");
  files(place, drawn.view, wide);
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

/** Columns that say how a mark looks. */
const LOOKS = new Set(/* LOOKS */ []);

/** The numbers that a chart draws, as `csv_of` in render/csv.py has them. */
function csv(spec) {
  const rows = numbers(spec);
  const heads = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const cell = (value) => {
    const text = value === undefined || value === null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [heads, ...rows.map((row) => heads.map((head) => row[head]))].map((line) => `${line.map(cell).join(",")}\n`).join("");
}

/** A row per mark, with the title of its panel where there are several; none of marks that help to read others. */
function numbers(spec) {
  const found = [...tables(spec, spec.datasets ?? {}, "")].filter(([, values]) => saysWhat(values[0]));
  const several = new Set(found.map(([title]) => title).filter(Boolean)).size > 1;
  const seen = new Set();
  const rows = [];
  for (const [title, values] of found) {
    for (const value of values) {
      const kept = Object.entries(value).filter(([key, of]) => !LOOKS.has(key) && of !== null && of !== undefined);
      const named = JSON.stringify([title, [...kept].sort(([one], [other]) => (one < other ? -1 : 1))]);
      if (kept.length < 2 || seen.has(named)) continue;
      seen.add(named);
      rows.push({ ...(several ? { panel: title } : {}), ...Object.fromEntries(kept) });
    }
  }
  return rows;
}

/** Whether a row says in a word what it is of. */
function saysWhat(row) {
  return Object.entries(row).some(([key, of]) => typeof of === "string" && (key === "about" || !LOOKS.has(key)));
}

/** The heading of a panel; that of layers may be of one of them. */
function heading(part) {
  const said = part.title?.text ?? part.title;
  const own = Array.isArray(said) ? said.join(" ") : typeof said === "string" && said;
  return own || (part.layer ?? []).map(heading).find(Boolean) || "";
}

/** The data of each mark but texts, which repeat what others draw, below the title of its panel. */
function* tables(part, datasets, title) {
  if (Array.isArray(part)) for (const one of part) yield* tables(one, datasets, title);
  if (part === null || typeof part !== "object" || Array.isArray(part)) return;
  const inner = heading(part) || title;
  const values = part.data?.values?.length ? part.data.values : (datasets[part.data?.name ?? ""] ?? []);
  if (values.length && (part.mark?.type ?? part.mark) !== "text") yield [inner, values];
  for (const key of ["layer", "concat", "hconcat", "vconcat"]) yield* tables(part[key], datasets, inner);
}
