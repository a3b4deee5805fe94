// Fields that a way of arriving, or a question, does not have are neither shown nor sent.

const form = document.getElementById("ask");
const control = (name) => form.elements.namedItem(name);
const ARRIVAL = {
  rate: ["poisson", "gamma", "constant", "trace"],
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
  for (const name of ["count", "prompt_tokens", "output_tokens"]) has(`workload.requests.${name}`, !control("workload.trace").value);
  const goal = control("find").value;
  has("rates", goal === "several rates");
  has("think_time", goal === "highest rate");
}

for (const event of ["change", "filled"]) form.addEventListener(event, follow, { capture: true });
follow();
