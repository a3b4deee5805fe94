"""The script of a report: it draws the charts into their places and gives each as a file."""

SCRIPT = """
"use strict";
(() => {
  const charts = JSON.parse(document.getElementById("sightline-charts").textContent);
  const isNarrow = window.innerWidth <= 560;

  /* The rows that a specification holds, each list once, as CSV. */
  function csv(spec) {
    const lists = new Map();
    (function walk(node) {
      if (node === null || typeof node !== "object") return;
      const named = node.data && spec.datasets && spec.datasets[node.data.name];
      const values = named || (node.data && node.data.values);
      if (Array.isArray(values)) lists.set(JSON.stringify(values), values);
      Object.values(node).forEach(walk);
    })(spec);
    const rows = [...lists.values()].flat();
    const heads = [...new Set(rows.flatMap((row) => Object.keys(row)))];
    const cell = (value) => {
      const text = value === undefined || value === null ? "" :
        typeof value === "object" ? JSON.stringify(value) : String(value);
      return /[",\\n\\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
    };
    return [heads, ...rows.map((row) => heads.map((head) => row[head]))]
      .map((line) => line.map(cell).join(",") + "\\n").join("");
  }

  function save(name, url) {
    const link = document.createElement("a");
    link.href = url;
    link.download = name;
    link.click();
  }

  function files(identifier, view, spec) {
    const bar = document.createElement("div");
    bar.className = "files";
    const asText = (text, kind) => URL.createObjectURL(new Blob([text], { type: kind }));
    const kinds = {
      SVG: () => view.toSVG().then((svg) => asText(svg, "image/svg+xml")),
      PNG: () => view.toImageURL("png", 2),
      CSV: () => Promise.resolve(asText(csv(spec), "text/csv")),
    };
    for (const [kind, url] of Object.entries(kinds)) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = kind;
      button.setAttribute("aria-label", "save the chart as " + kind);
      button.addEventListener("click", () => url().then((found) => save(identifier + "." + kind.toLowerCase(), found)));
      bar.append(button);
    }
    document.getElementById(identifier).closest("figure").append(bar);
  }

  function draw(identifier) {
    const [wide, narrow] = charts[identifier];
    delete charts[identifier];
    const spec = isNarrow && narrow ? narrow : wide;
    const place = document.getElementById(identifier);
    vegaEmbed(place, spec, { actions: false, renderer: "svg" }).then((drawn) => {
      // The element around it says in words what it shows.
      place.querySelector("svg").setAttribute("aria-hidden", "true");
      files(identifier, drawn.view, spec);
    });
  }

  /* What is folded is drawn when it is unfolded. */
  function drawVisible() {
    for (const identifier of Object.keys(charts)) {
      const element = document.getElementById(identifier);
      if (element && !element.closest("details:not([open])")) draw(identifier);
    }
  }
  document.querySelectorAll("details").forEach((one) => one.addEventListener("toggle", drawVisible));
  drawVisible();
})();
"""
"""It asks nothing of the network. Images and tables are made of what the page holds."""
