// Keeps the parts of a page that are marked data-live up to date: it fetches the page
// again and copies the changes. Each such part has an id. Focused and opened elements
// stay as they are. The rows of a list that is marked data-hold have ids too: while the list is
// used, no row is added or moved. A page is complete without this script; reload it to update it.
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
  if (held.has(node)) return hold(node, other);
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

const held = new Map(); // the lists that are used, each with rows that it has and the new page has not
const news = { rows: 0, shown: false }; // rows that are not in such lists yet, or no longer; whether to show them
const idle = 60000; // ms without input, after which a list at the top of a page counts as unused
let touched = performance.now();
for (const input of ["pointermove", "pointerdown", "keydown", "wheel", "touchstart"]) {
  addEventListener(input, () => { touched = performance.now(); }, { passive: true });
}

// used reports whether a list is being read or used, so that it must not move.
function used(list) {
  if (list.matches(":hover") || list.contains(document.activeElement) || list.querySelector(":checked")) return true;
  const box = list.getBoundingClientRect();
  return box.bottom > 0 && box.top < innerHeight && (scrollY > 0 || performance.now() - touched < idle);
}

// rowsOf returns the rows of a list in a page by their ids.
function rowsOf(page, list) {
  return new Map([...(page.getElementById(list.id)?.children ?? [])].map((row) => [row.id, row]));
}

// hold updates the rows that a list has, each at its height, and counts the others.
function hold(list, other) {
  const rows = new Map([...(other?.children ?? [])].map((row) => [row.id, row])), left = held.get(list);
  let gone = 0;
  for (const row of [...list.children]) {
    if (!rows.has(row.id)) gone++;
    const now = rows.get(row.id) ?? left.get(row.id), why = row.querySelector(".why"), height = row.offsetHeight, whole = why?.offsetHeight;
    if (now) carry(row, document.adoptNode(now));
    row.classList.toggle("gone", !now);
    row.title = now ? "" : "no longer in this list";
    rows.delete(row.id);
    if (!why || row.offsetHeight === height) continue;
    why.style.height = whole + "px";
    why.style.overflow = "hidden";
  }
  news.rows += Math.max(rows.size, gone);
}

// offer shows the button for the rows that are held back.
function offer() {
  let button = document.getElementById("news");
  if (!button) {
    button = document.createElement("button");
    button.id = "news";
    button.type = "button";
    button.addEventListener("click", () => { news.shown = true; refresh(); });
    document.body.append(button);
  }
  if (button.hidden && news.rows > 0) document.getElementById("live").textContent = "The list has changed";
  button.hidden = news.rows === 0;
  button.textContent = `${news.rows} new: show`;
}

// ago returns how long ago a time was, or in how long it will be, in words.
function ago(ms) {
  const seconds = Math.round(Math.abs(ms) / 1000);
  if (seconds < 10) return ms < 0 ? "now" : "just now";
  const [size, unit] = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]].find(([size]) => seconds >= size);
  const text = `${Math.floor(seconds / size)} ${unit}`;
  return ms < 0 ? "in " + text : text + " ago";
}

// relate shows the times of a page by the clock of the worker, and the exact ones in their titles.
function relate(root, now) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const text = ago(now - Date.parse(time.dateTime));
    if (!time.title) time.title = time.textContent;
    if ("exact" in time.dataset) time.title = text;
    else if (time.textContent !== text) time.textContent = text;
  }
}

// clock is how much the worker's clock is ahead of the browser's, in ms.
let clock = Number(document.body.dataset.now) - Date.now();
relate(document, Date.now() + clock);

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

// spoken returns the texts for screen readers (data-news) by the id of their element.
function spoken(root) {
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

// load requests a page, and returns it, or shows why not.
async function load(address) {
  let answer, text;
  try {
    answer = await fetch(address, { headers: { "Orgops-Live": "1" }, redirect: "manual", signal: AbortSignal.timeout(patience) });
    if (!answer.ok) return stale(wrong(answer));
    text = await answer.text();
  } catch {
    return stale(wrong(null));
  }
  const page = new DOMParser().parseFromString(text, "text/html");
  copies(page);
  return page;
}

async function refresh() {
  const parts = document.querySelectorAll("[data-live][id]");
  if (document.hidden || parts.length === 0) return;
  const page = await load(location.href);
  if (!page) return;
  const shown = news.shown;
  held.clear();
  for (const list of document.querySelectorAll("[data-live] [data-hold][id]")) {
    if (shown || !used(list)) continue;
    held.set(list, new Map());
    const now = rowsOf(page, list);
    if (!list.dataset.hold || ![...list.children].some((row) => !now.has(row.id))) continue;
    const all = await load(list.dataset.hold);
    if (!all) return;
    relate(all, Date.now() + clock);
    held.set(list, rowsOf(all, list));
  }
  if (shown) news.shown = false;
  clock = Number(page.body.dataset.now) - Date.now();
  relate(page, Date.now() + clock);
  relate(document, Date.now() + clock);
  const before = spoken(document), after = spoken(page);
  news.rows = 0;
  for (const part of parts) {
    const other = page.getElementById(part.id);
    const lost = [...held.keys()].filter((list) => part.contains(list) && other && !page.getElementById(list.id));
    for (const list of lost) hold(list, null);
    if (other && lost.length === 0) carry(part, document.adoptNode(other));
  }
  offer();
  document.title = page.title;
  fresh = new Date();
  stale("");
  const changed = announcement(before, after);
  if (changed !== null) document.getElementById("live").textContent = changed;
}

// copy copies the text of the element that a button names, or of the one before it, and says so on the button and to
// screen readers. Browsers without a clipboard, as over plain HTTP, get the text selected.
async function copy(button) {
  const named = document.getElementById(button.dataset.copy), source = named ?? button.previousElementSibling, live = document.getElementById("live");
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

// copies shows the buttons that copy, of this page or of its next state.
function copies(page) {
  for (const button of page.querySelectorAll("button[data-copy]")) button.hidden = false;
}

copies(document);
addEventListener("click", (event) => {
  const button = event.target.closest?.("button[data-copy]");
  if (button) copy(button);
});

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

const search = document.getElementById("search"), hits = document.getElementById("hits");
const pause = 300; // ms without a letter typed, after which the text is searched
let typing = 0;

// suggest shows the hits of the search below it. The page of the search shows the same ones.
async function suggest() {
  const text = search.value.trim(), nodes = [];
  if (text.length >= 3) {
    const answer = await fetch("/search?q=" + encodeURIComponent(text), { signal: AbortSignal.timeout(patience) });
    if (!answer.ok || search.value.trim() !== text) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (answer.redirected) { // there is one, and this is its page
      const link = document.createElement("a");
      link.href = answer.url;
      link.textContent = page.querySelector("h1")?.textContent ?? text;
      nodes.push(link);
    } else {
      nodes.push(...page.querySelectorAll("#content h2, #content .hits"));
    }
  }
  hits.replaceChildren(...nodes);
  hits.hidden = nodes.length === 0;
}

search?.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => suggest().catch(() => { hits.hidden = true; }), pause);
});
search?.form.addEventListener("focusout", (event) => {
  if (!search.form.contains(event.relatedTarget)) hits.hidden = true;
});

// The key / leads to the search, and Esc back to the page.
addEventListener("keydown", (event) => {
  const at = document.activeElement;
  if (event.key === "Escape" && search?.form.contains(at)) at.blur();
  if (event.key !== "/" || !search || event.ctrlKey || event.metaKey || event.altKey) return;
  if (at?.matches("input:not([type=checkbox]), textarea, select")) return;
  event.preventDefault();
  search.focus();
  search.select();
});

setTimeout(keepUp, every);
