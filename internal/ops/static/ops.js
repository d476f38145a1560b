// Keeps the parts of a page that are marked data-live up to date: it fetches the page
// again, and carries over what has changed. Each such part has an id. What has the
// focus or was opened stays as it is. Without this script a page is whole, and is
// brought up to date by loading it again.
"use strict";

const every = 2000; // ms from one look to the next, and ten times what a look takes
const patience = 15000; // ms that a look may take: the server gives up before that
let fresh = new Date(); // when what is shown was so

// carry makes the node like the other one, and keeps it: who reads it, or has the
// focus in it, loses nothing.
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
  let at = node.firstChild; // what is before it is like the other's
  for (const one of [...other.childNodes]) {
    const same = one.id ? after(at, one.id) : at && !at.id && at.nodeName === one.nodeName ? at : null;
    if (!same) {
      node.insertBefore(one, at);
      continue;
    }
    while (at !== same) at = without(at); // and never moved: that would lose the focus
    at = same.nextSibling;
    carry(same, one);
  }
  while (at) at = without(at);
}

// asks says whether the node is a form that a person has opened: what he was asked is
// not put in the place of something else under his hands.
function asks(node) {
  return node.nodeName === "DETAILS" && node.open && node.querySelector("form") !== null;
}

// after finds a node by its id among this one and those behind it.
function after(node, id) {
  while (node && node.id !== id) node = node.nextSibling;
  return node;
}

// without takes a node away, and returns the one behind it.
function without(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

// carryAttributes leaves alone what a person has set: what is open, chosen or typed.
function carryAttributes(node, other) {
  const own = node.nodeName === "DETAILS" ? ["open"] : [];
  for (const { name, value } of [...other.attributes]) {
    if (!own.includes(name) && node.getAttribute(name) !== value) node.setAttribute(name, value);
  }
  for (const { name } of [...node.attributes]) {
    if (!own.includes(name) && !other.hasAttribute(name)) node.removeAttribute(name);
  }
}

// news is what is read out where it has changed: data-news, by the element's id.
function news(root) {
  return new Map([...root.querySelectorAll("[data-news][id]")].map((one) => [one.id, one.dataset.news]));
}

function tell(before, after) {
  const told = [...after].filter(([id, text]) => before.has(id) && before.get(id) !== text).map(([, text]) => text);
  if (told.length === 0) return null;
  return told.slice(0, 3).join("; ") + (told.length > 3 ? `; and ${told.length - 3} more` : "");
}

// wrong says in words why a look failed, by the answer's status or by there being none.
function wrong(answer) {
  if (!answer) return "the worker cannot be reached, or does not answer in time";
  if (answer.redirected || answer.type === "opaqueredirect") return "something in between leads elsewhere: load the page again, you may have to sign in";
  switch (answer.status) {
    case 401: case 403: return "you may no longer look: load the page again, and sign in";
    case 404: return "what is shown here is no longer there";
    case 429: return "too much was asked at once";
    case 502: case 504: return "the proxy does not reach the worker";
    case 503: return "the worker answers, but cannot read Redis, or reads it too slowly";
  }
  return `the worker answers with status ${answer.status}; its log says why`;
}

// stale says at the top of the page that it is not up to date, and since when. It is
// read out where the reason is another one, not at each look.
function stale(why) {
  const banner = document.getElementById("stale"), live = document.getElementById("live");
  banner.hidden = why === "";
  banner.textContent = why && `Not up to date: what you see is of ${fresh.toISOString().slice(11, 19)} UTC. Reason: ${why}.`;
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
  fresh = new Date();
  stale("");
  const said = tell(before, after);
  if (said !== null) document.getElementById("live").textContent = said;
}

async function keepUp() {
  const began = performance.now();
  try {
    await refresh();
  } catch (problem) {
    stale(`this page's script failed (${problem.message}): load the page again`);
  }
  const away = "away" in document.getElementById("live").dataset; // its look took long for nothing
  setTimeout(keepUp, away ? patience : Math.max(every, 10 * (performance.now() - began)));
}

setTimeout(keepUp, every);
