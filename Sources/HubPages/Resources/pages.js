// Everything works without this script. It shows times in the browser's time zone, moves through
// lists with the arrow keys, moves through a folder's past with a slider, shows changes of the volume
// when they happen, sends files that are dropped, one after another, with their progress, and signs
// in with passkeys.
"use strict";
document.documentElement.classList.add("script");

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

// A folder's past: a slider with the moments of change in front of their list. The page of the
// moment that is chosen takes the place of this one, and the slider keeps the focus.
let lastMoment = 0;
function addSlider(root) {
  const list = root.querySelector(".moments");
  const links = [...(list?.querySelectorAll("a") ?? [])];
  if (links.length < 2) return;
  const box = document.createElement("div");
  box.className = "slider";
  const label = box.appendChild(document.createElement("label"));
  label.textContent = "Moment of change";
  const slider = box.appendChild(document.createElement("input"));
  const value = box.appendChild(document.createElement("output"));
  slider.id = label.htmlFor = "moment";
  value.htmlFor = "moment";
  Object.assign(slider, { type: "range", min: 0, max: links.length - 1, step: 1 });
  const shown = links.findIndex((link) => link.hasAttribute("aria-current"));
  slider.value = Math.max(0, shown);
  const say = () => {
    const text = links[slider.value].textContent;
    value.textContent = text;
    slider.setAttribute("aria-valuetext", text);
  };
  say();
  if (shown < 0) value.textContent = "before the first change";
  slider.addEventListener("input", say);
  slider.addEventListener("change", () => showMoment(links[slider.value].href));
  list.before(box);
}

async function showMoment(address) {
  const number = ++lastMoment;
  const answer = await fetch(address, { headers: { Accept: "text/html" } });
  const text = await answer.text();
  if (number !== lastMoment) return;
  if (!answer.ok || answer.redirected) return location.assign(address);
  const page = new DOMParser().parseFromString(text, "text/html");
  const fresh = page.querySelector("main");
  localTimes(fresh);
  addSlider(fresh);
  document.querySelector("main").replaceChildren(...fresh.childNodes);
  document.title = page.title;
  history.replaceState(null, "", address);
  document.getElementById("moment")?.focus();
}
addSlider(document);

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
    const isInUse = old.querySelector("form:focus-within, details.change[open]");
    if (old.innerHTML === fresh.innerHTML || isInUse) return;
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

// Files: those that are chosen and those that are dropped anywhere on a folder's page.
const sending = { list: null, queue: [], isBusy: false };
const uploadForm = () => document.querySelector("form.upload");

function send(files, form) {
  if (!sending.list) {
    const box = document.createElement("section");
    box.className = "sending";
    box.setAttribute("aria-label", "Files that are sent");
    sending.list = box.appendChild(document.createElement("ul"));
    sending.list.setAttribute("aria-live", "polite");
    document.querySelector("main").before(box);
  }
  // What the form says now, because the page may be replaced before the file is sent.
  const fields = [...form.querySelectorAll("input[type=hidden]")].map((one) => [one.name, one.value]);
  for (const file of files) {
    const item = sending.list.appendChild(document.createElement("li"));
    item.appendChild(document.createElement("bdi")).textContent = file.name;
    const bar = item.appendChild(document.createElement("progress"));
    bar.setAttribute("aria-label", `Progress of ${file.name}`);
    const says = item.appendChild(document.createElement("span"));
    sending.queue.push({ file, fields, bar, says, item, action: form.action });
  }
  next();
}

function next() {
  const one = !sending.isBusy && sending.queue.shift();
  if (!one) return;
  sending.isBusy = true;
  const data = new FormData();
  for (const [name, value] of one.fields) data.append(name, value);
  data.append("modified", Math.max(0, one.file.lastModified));
  data.append("files", one.file);
  const request = new XMLHttpRequest();
  request.open("POST", one.action);
  request.responseType = "document";
  request.upload.onprogress = (event) => {
    if (event.lengthComputable) [one.bar.max, one.bar.value] = [event.total, event.loaded];
  };
  request.onloadend = () => {
    const page = request.response;
    const isDone = request.status === 200;
    one.bar.remove();
    one.item.className = isDone ? "good" : "bad";
    one.says.textContent = page?.querySelector(isDone ? "main [role=status]" : "main p")?.textContent
      ?? "The connection ended before the file was sent, so nothing was saved.";
    sending.isBusy = false;
    if (sending.queue.length) next();
    else refresh("sent");
  };
  request.send(data);
}

document.addEventListener("change", (event) => {
  if (!event.target.matches("form.upload input[type=file]")) return;
  send([...event.target.files], event.target.form);
  event.target.value = "";
  event.target.blur();
});
for (const kind of ["dragover", "dragleave", "drop"]) {
  addEventListener(kind, (event) => {
    const form = uploadForm();
    if (!form || !event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    form.classList.toggle("over", kind === "dragover");
    if (kind !== "drop") return;
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.());
    // A browser gives a folder that is dropped as a file that cannot be read.
    send([...event.dataTransfer.files].filter((_, index) => !entries[index]?.isDirectory), form);
  });
}
addEventListener("beforeunload", (event) => {
  const text = document.querySelector("form.edit:not(.sent) textarea");
  if (sending.isBusy || (text && text.value !== text.defaultValue)) event.preventDefault();
});
document.addEventListener("submit", (event) => event.target.classList.add("sent"));

// Passkeys: the form says which challenge the hub has for this browser, and gets the answer.
const toText = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes)))
  .replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const toBytes = (text) => Uint8Array.from(
  atob(text.replaceAll("-", "+").replaceAll("_", "/")), (one) => one.charCodeAt(0));

async function answerOfPasskey({ challenge, account, user, known }) {
  const asked = { challenge: toBytes(challenge), userVerification: "required" };
  if (!account) {
    const made = await navigator.credentials.get({ publicKey: asked });
    const said = made.response;
    return {
      credential: made.rawId, client: said.clientDataJSON, data: said.authenticatorData,
      signature: said.signature,
    };
  }
  const made = await navigator.credentials.create({ publicKey: {
    challenge: asked.challenge, attestation: "none", rp: { name: "Concord" },
    user: { id: toBytes(account), name: user, displayName: user },
    pubKeyCredParams: [-7, -8, -257].map((alg) => ({ type: "public-key", alg })),
    authenticatorSelection: { residentKey: "required", userVerification: "required" },
    excludeCredentials: known.split(" ").filter(Boolean)
      .map((id) => ({ type: "public-key", id: toBytes(id) })),
  } });
  const said = made.response;
  return {
    client: said.clientDataJSON, data: said.getAuthenticatorData(), key: said.getPublicKey(),
  };
}

document.addEventListener("click", async (event) => {
  if (!event.target.matches("button.passkey")) return;
  const form = event.target.form;
  const notice = form.querySelector("[role=alert][hidden], .refused");
  try {
    const answer = await answerOfPasskey(form.dataset);
    for (const [name, bytes] of Object.entries(answer)) {
      const input = form.appendChild(document.createElement("input"));
      Object.assign(input, { type: "hidden", name, value: toText(bytes) });
    }
    form.submit();
  } catch (error) {
    notice.textContent = error.name === "InvalidStateError"
      ? "This device has a passkey of your account already."
      : "Your browser gave no passkey. Nothing was changed.";
    notice.classList.add("refused");
    notice.hidden = false;
  }
});
// Only an encrypted connection, or one within the computer, lets pages use passkeys.
if (window.PublicKeyCredential && isSecureContext) {
  for (const button of document.querySelectorAll("button.passkey")) button.hidden = false;
}
