// A trace is sent as it is; the address that explains it comes back.

const form = document.getElementById("trace");
const [file, of, button] = ["#f-trace", "#f-trace-of", "button"].map((one) => form.querySelector(one));
const problem = document.getElementById("f-trace-problem");
const MEGA = 1e6;

function say(text) {
  problem.textContent = text;
  button.disabled = false;
}

async function send() {
  const [trace] = file.files;
  const most = Number(form.dataset.most);
  if (trace.size > most) {
    say(`${trace.name} has ${(trace.size / MEGA).toFixed(0)} MB; allowed here: ${(most / MEGA).toFixed(0)} MB, packed by gzip or not. The command line has no such bound: sightline explain ${trace.name}`);
    return;
  }
  const fields = of?.checked ? [...new FormData(document.getElementById("ask"))] : [];
  const asked = new URLSearchParams(fields.filter(([, value]) => value.trim()));
  asked.set("name", trace.name);
  if (of?.checked) asked.set(form.dataset.ofScenario, "yes");
  button.disabled = true;
  problem.textContent = "Sending ...";
  try {
    const response = await fetch(`${form.dataset.path}?${asked}`, { method: "POST", body: trace, headers: { "content-type": "application/octet-stream" } });
    const found = await response.json();
    if (response.ok) location.assign(found.address); else say(found.error);
  } catch {
    say("The server does not answer: is `sightline ui` still running?");
  }
}

form.hidden = false;
form.addEventListener("submit", (event) => { event.preventDefault(); send(); });
