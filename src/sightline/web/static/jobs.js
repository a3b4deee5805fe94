// Long work: started, followed and stopped from the page.

const ENDED = ["done", "failed", "cancelled", "interrupted"];

/** What is said of work that nobody asked for. */
function notBegun() {
  const button = document.querySelector("#ask button[type=submit]")?.textContent.trim();
  return button ? `Nothing runs yet. Say in the form what it is about, then press \u201c${button}\u201d.` : "Nothing runs yet.";
}

/** How far a job is, in words. */
function words(job) {
  const { what, done, total } = job.progress;
  if (job.problems) return job.problems.join(" ");
  if (job.state === "stopping") return "Stopping: what was found until now is kept ...";
  if (job.state === "cancelled") return "Stopped.";
  return total ? `${what}: ${done.toLocaleString()} of ${total.toLocaleString()}` : what || job.state;
}

/** Follows the job whose form is in an element; `again` shows what it found. `starts` begins it at once. */
export function followJob(within, again, starts) {
  const form = within.querySelector("form.job");
  if (!form) return;
  const bar = form.querySelector("progress");
  const says = form.querySelector(".job-says");
  const stop = form.querySelector(".job-stop");
  const address = `/api/v1/jobs/${form.dataset.job}`;
  // The button of the page's form begins it; the one here is for browsers without scripts.
  form.querySelector('button[type="submit"]').remove();

  function show(isRunning) {
    bar.hidden = !isRunning;
    stop.hidden = !isRunning;
  }

  function tell(job) {
    const { done, total } = job.progress;
    if (total) bar.value = done / total; else bar.removeAttribute("value");
    says.textContent = words(job);
    says.classList.toggle("bad", Boolean(job.problems));
    show(!ENDED.includes(job.state));
    stop.disabled = job.state === "stopping";
  }

  function fail(sentence) {
    says.textContent = sentence;
    says.classList.add("bad");
    show(false);
  }

  function follow() {
    const events = new EventSource(`${address}/events`);
    events.onmessage = (event) => {
      const job = JSON.parse(event.data);
      if (!form.isConnected) { events.close(); return; }
      tell(job);
      if (!ENDED.includes(job.state)) return;
      events.close();
      if (job.state === "done" || job.state === "cancelled") again();
    };
    events.onerror = () => {
      events.close();
      if (form.isConnected) fail("The server does not answer; what is finished is kept. Start it again and reload this page.");
    };
  }

  async function start() {
    says.textContent = "Starting ...";
    try {
      const response = await fetch(form.getAttribute("action"), { method: "POST", headers: { accept: "application/json" } });
      const job = await response.json();
      // Another form of the same work was shown meanwhile, which has not begun as far as that knows.
      if (!form.isConnected && document.querySelector(`form.job[data-job="${form.dataset.job}"]`)) again();
      else if (response.ok) { tell(job); follow(); } else fail(job.error);
    } catch {
      fail("The server does not answer: is `sightline ui` still running?");
    }
  }

  stop.addEventListener("click", () => fetch(address, { method: "DELETE" }));
  const state = form.dataset.state;
  show(state !== "new" && !ENDED.includes(state));
  if (!stop.hidden) follow(); else if (starts) start();
  else if (state === "new") says.textContent = notBegun();
}
