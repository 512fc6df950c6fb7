// Replaces the main part of a page as the server sends newer ones, and follows logs. Without this file pages are whole
// as they were loaded. Texts are only ever set as text, or parsed as a document of which no script runs.
"use strict";

const MOST_TEXT = 2000000; // characters of a log that the browser keeps
const MOST_LINES = 5000; // lines of them: with four times as many, a fast log holds a browser for a second
const AGAIN = 15000; // milliseconds until a refused stream is tried again

const main = document.getElementById("main");
const live = document.getElementById("live");
const words = document.getElementById("live-words");
const pause = document.getElementById("pause");
let paused = false;
let source = null;
let again = null; // the timer of the next try

function say(text) {
  if (words.textContent !== text) words.textContent = text;
}

// What the corner says of a page that follows: its own words may be that the cluster does not answer.
function standing() {
  return document.getElementById("no-answer") ? "Not live: the cluster does not answer" : "Live";
}

// Make one tree like another and keep every node that can stay: so focus, selection and scrolled parts stay too.
function alter(old, wanted) {
  if (old.nodeType !== wanted.nodeType || old.nodeName !== wanted.nodeName || old.id !== wanted.id) {
    old.replaceWith(wanted);
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== wanted.nodeValue) old.nodeValue = wanted.nodeValue;
    return;
  }
  if (old.isEqualNode(wanted)) return;
  if (old.matches("form")) {
    if (old.contains(document.activeElement)) return; // somebody is filling it in
  }
  for (const one of [...old.attributes]) {
    if (!wanted.hasAttribute(one.name) && !(one.name === "open" && old.nodeName === "DETAILS")) old.removeAttribute(one.name);
  }
  for (const one of wanted.attributes) {
    if (old.getAttribute(one.name) !== one.value) old.setAttribute(one.name, one.value);
  }
  alterChildren(old, wanted);
}

// A node that is moved loses its focus. So what is before a named one and has gone is removed, and the named one stays.
function alterChildren(old, wanted) {
  const named = new Map();
  for (const one of old.children) if (one.id) named.set(one.id, one);
  const stay = new Set();
  for (const one of wanted.children) if (named.has(one.id)) stay.add(named.get(one.id));
  let at = old.firstChild;
  const drop = () => {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  };
  for (const one of [...wanted.childNodes]) {
    const known = one.id ? named.get(one.id) : undefined;
    while (known && at && at !== known && !stay.has(at)) drop();
    if (known && known !== at) {
      old.insertBefore(known, at);
      alter(known, one);
    } else if (at) {
      const next = at.nextSibling;
      if (!known && at.id && at.id !== one.id) {
        old.insertBefore(one, at);
      } else {
        alter(at, one);
        at = next;
      }
    } else {
      old.appendChild(one);
    }
  }
  while (at) drop();
}

function show(html) {
  const parsed = new DOMParser().parseFromString("<main>" + html + "</main>", "text/html");
  alterChildren(main, parsed.querySelector("main"));
}

function stop() {
  clearTimeout(again);
  if (source) source.close();
  source = null;
}

// The server takes this browser no longer: the token has expired, or another command has started. Loaded again, the page
// says so and asks for another token.
function leave() {
  stop();
  location.reload();
}

// An EventSource hides why it was refused.
function leaveIfRefused(address) {
  fetch(address, { method: "HEAD" }).then((answer) => answer.status === 401 && leave(), () => {});
}

function watch() {
  stop();
  if (paused || document.hidden) return; // a browser opens few connections to one server: hidden pages leave theirs
  const own = (source = new EventSource(main.dataset.stream));
  source.onopen = () => say(standing());
  source.addEventListener("page", (event) => {
    show(JSON.parse(event.data));
    say(standing());
  });
  source.addEventListener("trouble", (event) => say("The cluster does not answer: " + JSON.parse(event.data)));
  source.addEventListener("refused", leave);
  source.onerror = () => {
    say("Not live: the page is as it was loaded or last changed");
    if (own.readyState !== EventSource.CLOSED) return;
    leaveIfRefused(main.dataset.stream);
    again = setTimeout(watch, AGAIN);
  };
}

// Takes parts of a log and shows them once a frame, each line in a block of its own, so that only new lines are laid out.
// A carriage return begins the present line anew. "shown" is called after each frame, with whether lines were dropped.
function lines(log, shown) {
  let kept = 0; // characters in blocks
  let open = null; // the block of a line that has not ended
  let waiting = null; // parts for the next frame; null before the first one
  let dropped = false;

  function clear() {
    log.textContent = "";
    kept = 0;
    open = null;
  }

  function put(block, text) {
    kept += text.length - block.textContent.length;
    block.textContent = text;
  }

  function extend(fresh, line, ended) {
    if (!open && !line && !ended) return;
    if (!open) open = fresh.appendChild(document.createElement("span"));
    const anew = line.lastIndexOf("\r") + 1;
    put(open, (anew ? "" : open.textContent) + line.slice(anew) + (ended ? "\n" : ""));
    if (ended) open = null;
  }

  function frame() {
    let parts = waiting.split("\n");
    waiting = "";
    if (parts.length > MOST_LINES) {
      parts = parts.slice(-MOST_LINES);
      clear();
      dropped = true;
    }
    const fresh = document.createDocumentFragment();
    parts.forEach((line, at) => extend(fresh, line, at < parts.length - 1));
    log.append(fresh);
    while (kept > MOST_TEXT || log.childElementCount > MOST_LINES) {
      kept -= log.firstChild.textContent.length;
      log.firstChild.remove();
      dropped = true;
    }
    shown(dropped);
  }

  return (part) => {
    if (waiting === null) clear(); // what the page was loaded with is sent again
    if (!waiting) requestAnimationFrame(frame);
    waiting = (waiting || "") + part;
    if (waiting.length <= MOST_TEXT) return;
    const rest = waiting.slice(-MOST_TEXT / 2); // a hidden page has no frames
    waiting = rest.slice(rest.indexOf("\n") + 1);
    clear();
    dropped = true;
  };
}

function follow(log) {
  const stick = document.getElementById("stick");
  const problem = document.getElementById("log-problem");
  const cut = document.getElementById("log-cut");
  document.getElementById("stick-label").hidden = false;
  const stream = new EventSource(log.dataset.follow);
  const add = lines(log, (dropped) => {
    cut.hidden = !dropped;
    cut.textContent = dropped ? "Earlier lines are left out." : "";
    if (stick.checked) log.scrollTop = log.scrollHeight;
  });
  stream.addEventListener("log", (event) => add(JSON.parse(event.data)));
  const end = (text) => {
    stream.close();
    problem.hidden = !text;
    problem.textContent = text;
    say("The log has ended");
  };
  stream.addEventListener("end", () => end(""));
  stream.addEventListener("trouble", (event) => end(JSON.parse(event.data)));
  stream.addEventListener("refused", leave);
  stream.onopen = () => say("Follows the log");
  stream.onerror = () => {
    stream.close(); // it would begin with the last lines again
    say("Not live: load the page again to go on");
    leaveIfRefused(log.dataset.follow);
  };
  live.hidden = false;
  pause.hidden = true;
  log.scrollTop = log.scrollHeight;
}

if (main.dataset.stream) {
  live.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Go on with updates" : "Pause updates";
    say(paused ? "Paused" : "");
    watch();
  });
  document.addEventListener("visibilitychange", watch);
  watch();
}
const log = document.querySelector("[data-follow]");
if (log) follow(log);
