// Everything works without this script. It shows times in the browser's time zone, and moves
// through lists with the arrow keys.
"use strict";

const [exact, format] = ["medium", "short"].map(
  (timeStyle) => new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle }));
for (const time of document.querySelectorAll("time[datetime]")) {
  const moment = new Date(time.dateTime);
  if (isNaN(moment)) continue;
  time.title = time.textContent;
  time.textContent = (time.className === "exact" ? exact : format).format(moment);
}

const links = [...document.querySelectorAll(".items th a, .cards a")];
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || !links.length) return;
  if (event.target.matches("input, select, textarea, pre")) return;
  const step = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity }[event.key];
  if (!step) return;
  const at = links.indexOf(document.activeElement);
  if (at < 0 && event.key !== "ArrowDown") return;
  links[Math.min(Math.max(at + step, 0), links.length - 1)].focus();
  event.preventDefault();
});
