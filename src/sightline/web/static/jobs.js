// Long work: started, followed and stopped from the page.

/** Follows the job whose form is in an element; `again` shows what it found. `starts` begins it at once. */
export function followJob(within, again, starts) {
  const form = within.querySelector("form.job");
  if (!form) return;
  const bar = form.querySelector("progress");
  const says = form.querySelector(".job-says");
  const stop = form.querySelector(".job-stop");
  const begin = form.querySelector('button[type="submit"]');
  const address = `/api/v1/jobs/${form.dataset.job}`;

  function tell(job) {
    const { what, done, total } = job.progress;
    if (total) bar.value = done / total; else if (job.state === "running") bar.removeAttribute("value");
    says.textContent = job.problems ? job.problems.join(" ") : total ? `${what}: ${done.toLocaleString()} of ${total.toLocaleString()}` : what || job.state;
    says.classList.toggle("bad", Boolean(job.problems));
    begin.hidden = job.state === "running" || job.state === "waiting";
    stop.hidden = !begin.hidden;
    if (job.problems || job.state === "cancelled") bar.value = 0;
  }

  function follow() {
    const events = new EventSource(`${address}/events`);
    events.onmessage = (event) => {
      const job = JSON.parse(event.data);
      if (!form.isConnected) { events.close(); return; }
      tell(job);
      if (!["waiting", "running"].includes(job.state)) events.close();
      if (job.state === "done") again();
    };
    events.onerror = () => {
      events.close();
      if (form.isConnected) {
        says.textContent = "The server does not answer; what is finished is kept. Start it again and reload this page.";
        begin.hidden = false;
        stop.hidden = true;
      }
    };
  }

  async function start() {
    begin.hidden = true;
    says.textContent = "Starting ...";
    try {
      const response = await fetch(form.getAttribute("action"), { method: "POST", headers: { accept: "application/json" } });
      const job = await response.json();
      if (response.ok) { tell(job); follow(); } else { says.textContent = job.error; says.classList.add("bad"); begin.hidden = false; }
    } catch {
      says.textContent = "The server does not answer: is `sightline ui` still running?";
      begin.hidden = false;
    }
  }

  form.addEventListener("submit", (event) => { event.preventDefault(); event.stopPropagation(); start(); });
  stop.addEventListener("click", () => fetch(address, { method: "DELETE" }));
  const state = form.dataset.state;
  if (state === "running") { begin.hidden = true; stop.hidden = false; follow(); } else if (starts) start();
}
