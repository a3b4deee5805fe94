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
    if (specs && fold) fold.addEventListener("toggle", () => draw(within), { once: true });
    return specs && !fold ? drawOne(place, specs) : null;
  }));
}

async function drawOne(place, [wide, narrow]) {
  const spec = NARROW.matches && narrow ? narrow : wide;
  const drawn = await window.vegaEmbed(place, spec, OPTIONS);
  // The element around it says in words what it shows.
  place.querySelector("svg")?.setAttribute("aria-hidden", "true");
  fill(place, drawn.view, spec);
  link(place);
  files(place, drawn.view, wide);
}

/** Pixels up to which a chart grows with its place. */
const WIDEST = 1200;

/** Gives each row of panels what its place has more than the specification takes, whenever that changes; in place and
 * before anything is painted. */
function fill(place, view, spec) {
  const natural = place.querySelector("svg").viewBox.baseVal.width;
  const sizes = [...panels(spec, "", 1, Object.keys(signals(view)))];
  let drawn = natural;
  new ResizeObserver(() => {
    const width = Math.min(place.clientWidth, WIDEST);
    if (!width || Math.abs(width - drawn) < 1) return;
    drawn = width;
    for (const [name, own, share] of sizes) view.signal(name, Math.max(own + share * (width - natural), own * LEAST));
    view.resize().run();
  }).observe(place);
}

/** The least share of its own width that a panel keeps. */
const LEAST = 0.6;

const signals = (view) => view.getState({ signals: (name) => !/^_|data/.test(name), data: () => false }).signals;

/** The signal with the width of each panel, that width, and its share of what a row has more. Vega-Lite has one signal
 * for panels of one width. */
function* panels(part, prefix, share, names) {
  const inner = part.vconcat ?? part.hconcat ?? part.concat;
  if (inner) {
    const grow = inner.filter((one) => !(one.width <= 1)).length;
    const each = part.vconcat ? share : share / (part.hconcat ? grow : Math.min(part.columns, inner.length));
    for (const [at, one] of inner.entries()) yield* panels(one, `${prefix}concat_${at}_`, each, names);
  } else if (part.width > 1) {
    let above = prefix;
    const own = () => [`${above}childWidth`, `${above}width`].find((one) => names.includes(one));
    while (above && !own()) above = above.replace(/concat_\d+_$/, "");
    yield [own() ?? "width", part.width, share];
  }
}

/** Marks and rows of tables that have a key in common point at each other: rows by pointer and keyboard. */
function link(place) {
  const keys = new Set([...place.querySelectorAll("path")].map(keyOf).filter(Boolean));
  for (const row of keys.size ? place.getRootNode().querySelectorAll("tbody tr") : []) {
    const key = row.dataset.key ?? row.cells[0]?.textContent;
    if (keys.has(key)) Object.assign(row, { tabIndex: 0 }).dataset.key = key;
  }
}

/** The key of a row of a table, or of the datum of a mark. */
const keyOf = (one) => one.closest?.("tr[data-key]")?.dataset.key ?? one.__data__?.datum?.key ?? "";
let shown = "";

function point(event) {
  const key = keyOf(event.target);
  if (key === shown) return;
  shown = key;
  for (const row of document.querySelectorAll("tr[data-key]")) row.classList.toggle("picked", row.dataset.key === key);
  for (const one of document.querySelectorAll(".drawn path")) {
    const own = keyOf(one);
    if (own) one.classList.toggle("passed", key !== "" && own !== key);
  }
}
document.addEventListener("pointerover", point);
document.addEventListener("focusin", point);

/** Buttons of a chart whose time can be zoomed: the keyboard's way to what dragging and the wheel do. */
function zooms(view) {
  const found = Object.keys(signals(view)).filter((name) => /^zoom\d+_/.test(name)).map((name, at) => {
    const [first, last] = view.scale(`concat_${at}_x`).domain();
    const show = (low, high) => {
      const span = Math.min(high - low, last - first);
      const start = Math.min(Math.max(low, first), last - span);
      const shown = view.signal(name);
      if (!shown || Math.abs(shown[0] - start) + Math.abs(shown[1] - start - span) > 1e-9 * span) view.signal(name, [start, start + span]).runAsync();
    };
    // Nothing lies before the first time and behind the last.
    view.addSignalListener(name, (_, to) => to && show(...to));
    return (factor) => {
      const [low, high] = view.signal(name) ?? [first, last];
      show((low + high - factor * (high - low)) / 2, (low + high + factor * (high - low)) / 2);
    };
  });
  const buttons = [["+", "zoom in", 0.5], ["\u2212", "zoom out", 2], ["whole", "show the whole time", Infinity]];
  return found.length === 0 ? [] : buttons.map(([text, label, factor]) => (
    [text, `${label}; drag to move, Ctrl and the wheel to zoom`, () => found.forEach((one) => one(Math.min(factor, 1e9)))]));
}

function files(place, view, spec) {
  const figure = place.closest("figure");
  if (!figure || figure.querySelector(".files")) return;
  const bar = Object.assign(document.createElement("div"), { className: "files" });
  const asText = (text, kind) => URL.createObjectURL(new Blob([text], { type: kind }));
  const kinds = {
    SVG: () => view.toSVG().then((svg) => asText(svg, "image/svg+xml")),
    PNG: () => view.toImageURL("png", 2),
    CSV: async () => asText(csv(spec), "text/csv"),
  };
  const saves = Object.entries(kinds).map(([kind, make]) => [
    kind, `save the chart as ${kind}`, async () => save(`${place.id}.${kind.toLowerCase()}`, await make()),
  ]);
  for (const [text, label, act] of [...zooms(view), ...saves]) {
    const looks = { type: "button", textContent: text, title: label, ariaLabel: label, onclick: act };
    bar.append(Object.assign(document.createElement("button"), looks));
  }
  figure.append(bar);
}

export function save(name, url) {
  Object.assign(document.createElement("a"), { href: url, download: name }).click();
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
