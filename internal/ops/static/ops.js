// Keeps the parts of a page that are marked data-live up to date: it fetches the page
// again, and carries over what has changed. Each such part has an id. What has the
// focus or was opened stays as it is. Without this script a page is whole, and is
// brought up to date by loading it again.
"use strict";

const every = 2000; // ms from one look to the next, and ten times what a look takes

// carry makes the node like the other one, and keeps it: who reads it, or has the
// focus in it, loses nothing.
function carry(node, other) {
  if (node.isEqualNode(other)) return;
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

async function refresh() {
  const parts = document.querySelectorAll("[data-live][id]");
  if (document.hidden || parts.length === 0) return;
  const live = document.getElementById("live");
  try {
    const answer = await fetch(location.href, { headers: { "Orgops-Live": "1" }, redirect: "error" });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const before = news(document), after = news(fresh);
    for (const part of parts) {
      const other = fresh.getElementById(part.id);
      if (other) carry(part, document.adoptNode(other));
    }
    const said = tell(before, after);
    if (said !== null) live.textContent = said;
    else if (live.dataset.away) live.textContent = "";
    delete live.dataset.away;
  } catch (problem) {
    if (!live.dataset.away) live.textContent = "not up to date: the worker does not answer";
    live.dataset.away = "1";
  }
}

async function keepUp() {
  const began = performance.now();
  await refresh();
  setTimeout(keepUp, Math.max(every, 10 * (performance.now() - began)));
}

setTimeout(keepUp, every);
