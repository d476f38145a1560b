// Keeps the parts of a page that are marked data-live up to date: it fetches the page
// again and copies the changes. Each such part has an id. Focused and opened elements
// stay as they are. A page is complete without this script; reload it to update it.
"use strict";

const every = 2000; // ms between two requests, at least ten times the duration of a request
const patience = 15000; // ms until a request times out; the server gives up earlier
let fresh = new Date(); // time of the data shown

// carry makes node equal to other without replacing it, so that the focus and the
// position of a screen reader stay.
function carry(node, other) {
  if (node.isEqualNode(other) || asks(node)) return;
  if (node.nodeType !== other.nodeType || node.nodeName !== other.nodeName || node.id !== other.id) {
    node.replaceWith(other);
    return;
  }
  if (node.nodeType !== Node.ELEMENT_NODE) {
    node.nodeValue = other.nodeValue;
    return;
  }
  carryAttributes(node, other);
  let at = node.firstChild; // all nodes before it equal those of other
  for (const one of [...other.childNodes]) {
    const same = one.id ? after(at, one.id) : at && !at.id && at.nodeName === one.nodeName ? at : null;
    if (!same) {
      node.insertBefore(one, at);
      continue;
    }
    while (at !== same) at = without(at); // never move a node: that would lose the focus
    at = same.nextSibling;
    carry(same, one);
  }
  while (at) at = without(at);
}

// asks reports whether the node contains a form that the user has opened. It must not
// change while the user fills it in.
function asks(node) {
  return node.nodeName === "DETAILS" && node.open && node.querySelector("form") !== null;
}

// after finds a node by its id among node and its following siblings.
function after(node, id) {
  while (node && node.id !== id) node = node.nextSibling;
  return node;
}

// without removes a node and returns its next sibling.
function without(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

// carryAttributes copies the attributes, except those that the user sets: open, chosen, typed.
function carryAttributes(node, other) {
  const own = node.nodeName === "DETAILS" ? ["open"] : [];
  for (const { name, value } of [...other.attributes]) {
    if (!own.includes(name) && node.getAttribute(name) !== value) node.setAttribute(name, value);
  }
  for (const { name } of [...node.attributes]) {
    if (!own.includes(name) && !other.hasAttribute(name)) node.removeAttribute(name);
  }
}

// news returns the texts for screen readers (data-news) by the id of their element.
function news(root) {
  return new Map([...root.querySelectorAll("[data-news][id]")].map((one) => [one.id, one.dataset.news]));
}

// announcement returns the changed texts in one line, or null if none has changed.
function announcement(before, after) {
  const changed = [...after].filter(([id, text]) => before.has(id) && before.get(id) !== text).map(([, text]) => text);
  if (changed.length === 0) return null;
  return changed.slice(0, 3).join("; ") + (changed.length > 3 ? `; and ${changed.length - 3} more` : "");
}

// wrong describes a failed request by its status, or by the missing answer.
function wrong(answer) {
  if (!answer) return "the worker is unreachable or does not answer in time";
  if (answer.redirected || answer.type === "opaqueredirect") return "the request was redirected; reload the page, you may have to sign in again";
  switch (answer.status) {
    case 401: case 403: return "you are signed out or have no access; reload the page and sign in";
    case 404: return "this page no longer exists";
    case 429: return "too many requests";
    case 502: case 504: return "the proxy cannot reach the worker";
    case 503: return "the worker cannot read Redis, or Redis is too slow";
  }
  return `the worker answered with status ${answer.status}; see its log`;
}

// stale shows or hides the banner that the page is not up to date. Screen readers
// announce it once for each reason, not after each request.
function stale(why) {
  const banner = document.getElementById("stale"), live = document.getElementById("live");
  banner.hidden = why === "";
  banner.textContent = why && `This page is not up to date. Last update: ${fresh.toISOString().slice(11, 19)} UTC. Reason: ${why}.`;
  if (why === (live.dataset.away ?? "")) return;
  live.textContent = why && "not up to date: " + why;
  if (why) live.dataset.away = why;
  else delete live.dataset.away;
}

async function refresh() {
  const parts = document.querySelectorAll("[data-live][id]");
  if (document.hidden || parts.length === 0) return;
  let answer, text;
  try {
    answer = await fetch(location.href, { headers: { "Orgops-Live": "1" }, redirect: "manual", signal: AbortSignal.timeout(patience) });
    if (!answer.ok) return stale(wrong(answer));
    text = await answer.text();
  } catch {
    return stale(wrong(null));
  }
  const page = new DOMParser().parseFromString(text, "text/html");
  const before = news(document), after = news(page);
  for (const part of parts) {
    const other = page.getElementById(part.id);
    if (other) carry(part, document.adoptNode(other));
  }
  document.title = page.title;
  fresh = new Date();
  stale("");
  const changed = announcement(before, after);
  if (changed !== null) document.getElementById("live").textContent = changed;
}

// copy copies the text of the element that a button names, and says so on the button and to
// screen readers. Browsers without a clipboard, as over plain HTTP, get the text selected.
async function copy(button) {
  const source = document.getElementById(button.dataset.copy), live = document.getElementById("live");
  try {
    await navigator.clipboard.writeText(source.textContent);
    live.textContent = "Copied";
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(source);
    live.textContent = "Not copied: the text is selected, copy it by the keyboard";
  }
  setTimeout(() => { button.textContent = "Copy"; live.textContent = ""; }, every);
}

for (const button of document.querySelectorAll("button[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", () => copy(button));
}

async function keepUp() {
  const began = performance.now();
  try {
    await refresh();
  } catch (problem) {
    stale(`the script of this page failed (${problem.message}); reload the page`);
  }
  const away = "away" in document.getElementById("live").dataset; // a failed request says nothing about the usual duration
  setTimeout(keepUp, away ? patience : Math.max(every, 10 * (performance.now() - began)));
}

setTimeout(keepUp, every);
