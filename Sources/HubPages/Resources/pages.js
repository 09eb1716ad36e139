// Everything works without this script. It shows times in the browser's time zone, moves through
// lists with the arrow keys, and shows changes of the volume when they happen.
"use strict";

const [exact, format] = ["medium", "short"].map(
  (timeStyle) => new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle }));
function localTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const moment = new Date(time.dateTime);
    if (isNaN(moment)) continue;
    time.title = time.textContent;
    time.textContent = (time.className === "exact" ? exact : format).format(moment);
  }
}
localTimes(document);

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
  if (event.target.matches("input, select, textarea, pre")) return;
  const links = [...document.querySelectorAll(".items th a, .cards a")];
  const step = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity }[event.key];
  if (!step || !links.length) return;
  const at = links.indexOf(document.activeElement);
  if (at < 0 && event.key !== "ArrowDown") return;
  links[Math.min(Math.max(at + step, 0), links.length - 1)].focus();
  event.preventDefault();
});

// The page is loaded again after a change, and its main part replaced, unless somebody is about to
// use a form of it: a form says what its page showed.
const live = document.querySelector(".live");
let [source, shown, isLoading] = [null, null, false];

async function refresh(position) {
  if (isLoading || position === shown) return;
  isLoading = true;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!answer.ok || answer.redirected) return location.reload();
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const [old, fresh] = [document.querySelector("main"), page.querySelector("main")];
    localTimes(fresh);
    shown = position;
    const focused = document.activeElement;
    if (old.innerHTML === fresh.innerHTML || old.querySelector("form:focus-within")) return;
    const address = old.contains(focused) && focused.getAttribute("href");
    old.replaceChildren(...fresh.childNodes);
    if (address) [...old.querySelectorAll("a")].find((a) => a.getAttribute("href") === address)?.focus();
  } finally {
    isLoading = false;
  }
}

// Only a page that can be seen holds a connection, because browsers have few for one host.
function listen() {
  const isSeen = document.visibilityState === "visible";
  if (isSeen && !source) {
    source = new EventSource(live.dataset.events);
    source.onmessage = (event) => {
      // The first event says what the hub has now, which this page shows already.
      if (shown === null) shown = event.data;
      refresh(event.data);
    };
  } else if (!isSeen && source) {
    source.close();
    source = null;
  }
}
if (live) {
  document.addEventListener("visibilitychange", listen);
  addEventListener("pagehide", () => source?.close());
  listen();
}
