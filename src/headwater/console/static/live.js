// Keeps a page current: the server sends the whole view once, and then merge patches.

// Returns a new object; parts that did not change stay the same objects, so that tables can skip them.
export function merge(before, patch) {
  const after = { ...before };
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete after[key];
    else if (isObject(value) && isObject(after[key])) after[key] = merge(after[key], value);
    else after[key] = value;
  }
  return after;
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

function say(text, level) {
  const place = document.getElementById("connection");
  if (!place) return;
  place.textContent = text;
  place.dataset.level = level;
}

const RETRY_MS = 3000;

// Calls `update(view)` with each new state of the page. Drawing waits for a frame, so that a burst is drawn once.
export function live(update, path = document.body.dataset.live) {
  let view = {};
  let scheduled = false;
  const draw = () => {
    scheduled = false;
    update(view);
  };
  const changed = () => {
    say("live", "good");
    document.body.dataset.updates = String(Number(document.body.dataset.updates || 0) + 1);
    if (!scheduled) {
      scheduled = true;
      // Frames stop in a hidden tab: its page is drawn when it is shown again.
      requestAnimationFrame(draw);
    }
  };
  const open = () => {
    const source = new EventSource(path);
    source.addEventListener("view", (event) => {
      view = JSON.parse(event.data);
      changed();
    });
    source.addEventListener("patch", (event) => {
      view = merge(view, JSON.parse(event.data));
      changed();
    });
    source.addEventListener("gone", () => {
      source.close();
      say("gone", "bad");
    });
    source.onerror = () => {
      say("no connection to the console", "bad");
      // A browser tries again by itself, but not after an answer such as 503 of a proxy or of a console that starts.
      if (source.readyState === EventSource.CLOSED) setTimeout(open, RETRY_MS);
    };
  };
  open();
}
