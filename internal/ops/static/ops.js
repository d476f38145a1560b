// Keeps the parts of a page that are marked data-live up to date: it fetches the page
// again every few seconds, and puts what has changed in the place of what was there.
// Each such part has an id. Without this script a page is whole, and reloads by hand.
"use strict";

const every = 2000;

async function refresh() {
  if (document.hidden || !document.querySelector("[data-live]")) return;
  const told = document.getElementById("live");
  try {
    const answer = await fetch(location.href, { headers: { "Orgops-Live": "1" } });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of document.querySelectorAll("[data-live]")) {
      const other = fresh.getElementById(part.id);
      if (other && other.innerHTML !== part.innerHTML && !part.contains(document.activeElement)) {
        part.innerHTML = other.innerHTML;
      }
    }
    told.textContent = "";
  } catch (problem) {
    told.textContent = "not up to date: the worker does not answer";
  }
}

setInterval(refresh, every);
