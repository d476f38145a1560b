// The page is complete without this script. It adds buttons that copy the values, shows times in the
// reader's time zone, and keeps the state up to date.
"use strict";

const every = 20000; // ms between two requests

// local shows the times of a part of the page in the reader's time zone.
function local(part) {
  for (const time of part.querySelectorAll("time")) {
    time.textContent = new Date(time.dateTime).toLocaleString(document.documentElement.lang,
      { dateStyle: "long", timeStyle: "short" });
  }
  for (const one of part.querySelectorAll(".plain")) one.hidden = true;
}

// copies puts a button beside each value that is copied.
function copies() {
  if (!navigator.clipboard) return;
  for (const code of document.querySelectorAll("td code")) {
    const button = document.createElement("button");
    const name = code.closest("tr").querySelector("th").textContent;
    button.type = "button";
    button.textContent = "Copy";
    button.setAttribute("aria-label", "Copy " + name.toLowerCase());
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    code.after(button);
  }
}

// refresh shows the present state, or loads the page again if the domain was verified meanwhile.
async function refresh() {
  const state = document.getElementById("state");
  if (document.hidden) return;
  const answer = await fetch(location.href, { cache: "no-store" });
  const other = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("state");
  if (!answer.ok || !other) return; // the next one may have an answer
  if (other.dataset.status !== state.dataset.status) {
    location.replace(location.href);
    return;
  }
  local(other);
  if (other.innerHTML !== state.innerHTML) state.innerHTML = other.innerHTML;
}

local(document);
copies();
if (document.getElementById("state")) setInterval(() => refresh().catch(() => {}), every);
