// A bar beneath asynqmon's pages that leads back to ours: to the runs and, from a task's
// page, to its run and its domain. It stands outside of what asynqmon draws, and reads
// the task where asynqmon does.
"use strict";

const bar = document.createElement("nav");
bar.id = "orgops";
bar.setAttribute("aria-label", "orgops");

function link(text, href) {
  const a = document.createElement("a");
  a.textContent = text;
  a.href = href;
  return a;
}

const own = [link("Runs", "/runs"), link("Domains", "/domains"), link("Tenants", "/tenants")];

// ofTask are the links from a task with this payload.
function ofTask(payload) {
  const links = [];
  if (typeof payload.run === "string" && payload.run !== "") {
    const row = Number.isInteger(payload.item) ? `row ${payload.item} of ` : "";
    links.push(link(`This task: ${row}run ${payload.run}`, "/runs/" + encodeURIComponent(payload.run)));
  }
  if (typeof payload.discovery_domain_id === "string") {
    const named = new URLSearchParams({ tenant: payload.tenant || "default", organization: payload.organization_id || "", domain: payload.discovery_domain_id });
    links.push(link(`Domain ${payload.discovery_domain_id}`, "/domains?" + named));
  }
  return links;
}

let shown = "";

async function update() {
  if (location.pathname === shown) return;
  const path = (shown = location.pathname);
  bar.replaceChildren(...own);
  const task = path.match(/^\/monitor\/queues\/([^/]+)\/tasks\/([^/]+)$/);
  if (!task) return;
  try {
    const answer = await fetch(`/monitor/api/queues/${task[1]}/tasks/${task[2]}`);
    if (!answer.ok || path !== shown) return;
    bar.replaceChildren(...own, ...ofTask(JSON.parse((await answer.json()).payload)));
  } catch {
    // A task without a payload that can be read has nothing to lead to.
  }
}

document.body.append(bar);
update();
setInterval(update, 500); // asynqmon changes the address without telling anybody
