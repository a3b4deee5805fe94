// Fields that a way of arriving, or a question, does not have are neither shown nor sent.

const form = document.getElementById("ask");
const control = (name) => form.elements.namedItem(name);
const ARRIVAL = {
  rate: ["poisson", "gamma", "constant"],
  cv: ["gamma"],
  concurrency: ["closed"],
  think_time: ["closed"],
};

function has(name, is) {
  const one = control(name);
  one.disabled = !is;
  one.closest(".field").hidden = !is;
}

function follow() {
  const process = control("workload.arrival.process").value;
  for (const [name, processes] of Object.entries(ARRIVAL)) has(`workload.arrival.${name}`, processes.includes(process));
  const goal = control("find").value;
  has("rates", goal === "several rates");
  has("think_time", goal === "highest rate");
}

for (const event of ["change", "filled"]) form.addEventListener(event, follow, { capture: true });
follow();
