// Adds a bar below asynqmon's pages: links to the pages of orgops, the open work that is not in
// the queues, why rows are held up, a refused action and, on the page of a task, its run and
// domains. The bar is outside the element that asynqmon renders. It reads the task from the same
// endpoint as asynqmon.
"use strict";

function element(name, text, more) {
  return Object.assign(document.createElement(name), { textContent: text }, more);
}
const link = (text, href) => element("a", text, { href });

const bar = element("nav", "", { id: "orgops" });
bar.setAttribute("aria-label", "orgops");
const task = element("span", ""), work = element("span", ""), held = element("ul", ""), refused = element("p", "");
refused.setAttribute("role", "alert");
bar.append(refused, link("Overview", "/"), link("Runs", "/runs"), link("Domains", "/domains"), link("Tenants", "/tenants"), link("Activity", "/activity"), task, work, held);

// The tenant of the page's queue; "": the page has none.
const tenant = () => decodeURIComponent(location.pathname.match(/^\/monitor\/queues\/([^/.]+)/)?.[1] || "");

const waiting = (query) => fetch("/monitor/orgops/waiting?" + new URLSearchParams(query)).then((a) => (a.ok ? a.json() : null), () => null);

async function showWork() {
  if (document.hidden) return;
  const of = tenant(), answer = await waiting(of ? { tenant: of } : {});
  if (of !== tenant()) return;
  const whose = of ? "Tenant " + of : "All tenants";
  work.replaceChildren();
  if (!answer) work.append("The open work could not be read.");
  else work.append(`${whose}: ${answer.rows || "no open rows"}`, answer.rows ? ": " : "", answer.rows ? link("Runs", "/runs" + (of ? "?tenant=" + encodeURIComponent(of) : "")) : "");
  held.replaceChildren(...(answer?.held || []).map((why) => element("li", why)));
}

// showTask links the task of the page to its run and domains.
async function showTask(path) {
  task.replaceChildren();
  const of = path.match(/^\/monitor\/queues\/([^/]+)\/tasks\/([^/]+)$/);
  if (!of) return;
  try {
    const answer = await fetch(`/monitor/api/queues/${of[1]}/tasks/${of[2]}`);
    const payload = JSON.parse((await answer.json()).payload);
    const about = payload.event?.data, run = about?.run || payload.run; // of a delivery, or of rows
    const rows = about ? [about] : [payload, ...(payload.more || [])].flatMap((part) => part.rows || []).map((row) => row.content);
    const links = [];
    if (run) links.push(about ? "This event: of " : `This task: ${rows.length === 1 ? "a row" : rows.length + " rows"} of `, link("run " + run, `/runs/${encodeURIComponent(run)}?tenant=${encodeURIComponent(tenant())}`));
    for (const row of rows.slice(0, 5)) {
      if (!row?.organization_id) continue;
      const id = row.discovery_domain_id, named = { tenant: tenant(), organization: row.organization_id, domain: id };
      links.push(`, organization ${row.organization_id}`);
      if (id) links.push(" ", link(row.domain || (await waiting({ tenant: tenant(), domain: id }))?.domain || id, "/domains?" + new URLSearchParams(named)));
    }
    if (path === location.pathname) task.replaceChildren(...links);
  } catch {
    // Without a readable payload there are no links.
  }
}

// asynqmon says nothing of a refused action.
const open = XMLHttpRequest.prototype.open;
XMLHttpRequest.prototype.open = function (method, ...rest) {
  this.addEventListener("loadend", () => {
    if (method.toUpperCase() === "GET") return;
    refused.textContent = this.status >= 400 || this.status === 0 ? this.responseText || "the action failed: no answer" : "";
  });
  return open.call(this, method, ...rest);
};

// The pages end above the bar.
const resized = () => document.documentElement.style.setProperty("--orgops", bar.offsetHeight + "px");

let shown = "";
document.body.append(bar);
new ResizeObserver(resized).observe(bar);
setInterval(() => { // asynqmon changes the address without an event
  if (location.pathname === shown) return;
  shown = location.pathname;
  refused.textContent = "";
  showTask(shown);
  showWork();
}, 500);
setInterval(showWork, 5000);
