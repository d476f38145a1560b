// Adds a bar below asynqmon's pages with links to the pages of orgops and, on the page of
// a task, to its run and domain. The bar is outside the element that asynqmon renders. It
// reads the task from the same endpoint as asynqmon.
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

// ofTask returns the links for a task with this payload.
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
    // Without a readable payload there are no links.
  }
}

document.body.append(bar);
update();
setInterval(update, 500); // asynqmon changes the address without an event
