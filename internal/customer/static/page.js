// The page is complete without this script. It adds buttons that copy the values, shows times in the
// reader's time zone, and keeps the state up to date.
"use strict";

const every = 20000; // ms between two requests

// local shows the times of a part of the page in the reader's time zone.
function local(part) {
  for (const time of part.querySelectorAll("time")) {
    time.textContent = new Date(time.dateTime).toLocaleString(document.documentElement.lang,
      { day: "numeric", month: "long", year: "numeric", hour: "numeric", minute: "2-digit", timeZoneName: "short" });
  }
  for (const one of part.querySelectorAll(".plain")) one.hidden = true;
}

// texts are those of the page for this script.
const texts = document.getElementById("steps")?.dataset;

// copyButton returns a button that copies a text.
function copyButton(label, text) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = label;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text);
    button.textContent = texts.copied;
    setTimeout(() => { button.textContent = label; }, 2000);
  });
  return button;
}

// copies puts a button beside each value that is copied, and one for all of them below the table.
function copies() {
  if (!navigator.clipboard) return;
  for (const table of document.querySelectorAll("#steps table")) {
    const lines = [];
    for (const row of table.rows) {
      const name = row.querySelector("th").textContent;
      lines.push(name + ": " + row.querySelector("td").textContent);
      const code = row.querySelector("code");
      if (!code) continue;
      const button = copyButton(texts.copy, code.textContent);
      button.setAttribute("aria-label", texts.copy + " " + name.toLowerCase());
      code.after(button);
    }
    table.after(copyButton(texts.copyAll, lines.join("\n")));
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
