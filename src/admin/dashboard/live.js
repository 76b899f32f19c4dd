// Keeps the page up to date: takes pieces of it as server-sent events and puts them in place. Everything works without.
(() => {
  "use strict";
  const from = document.body.dataset.live;
  const clock = document.getElementById("clock");
  if (!from || !clock || !window.EventSource) return;
  const STALE_MS = 4000;
  const AGAIN_MS = 3000;
  let source;
  let heard = Date.now();

  const isBeingRead = (place) => {
    const selection = document.getSelection();
    return selection && !selection.isCollapsed && place.contains(selection.anchorNode);
  };

  const put = (name, html) => {
    const place = document.getElementById(name);
    if (!place || isBeingRead(place)) return;
    const focused = place.contains(document.activeElement) ? document.activeElement.id : "";
    place.innerHTML = html;
    const again = focused && document.getElementById(focused);
    if (again) again.focus({ preventScroll: true });
  };

  const take = (event) => {
    heard = Date.now();
    document.body.classList.remove("stale");
    const pieces = JSON.parse(event.data);
    for (const [name, html] of Object.entries(pieces)) put(name, html);
  };

  const open = () => {
    source = new EventSource(from);
    source.onmessage = take;
    source.onerror = () => {
      // A refusal ends the source for good; a lost connection does not.
      if (source.readyState === EventSource.CLOSED) setTimeout(open, AGAIN_MS);
    };
  };

  setInterval(() => {
    const silent = Date.now() - heard;
    if (silent < STALE_MS) return;
    document.body.classList.add("stale");
    clock.textContent = `not live for ${Math.round(silent / 1000)} s: what you see is old`;
  }, 1000);
  window.addEventListener("pagehide", () => source && source.close());
  window.addEventListener("pageshow", (event) => event.persisted && open());
  document.body.classList.remove("plainly");
  open();
})();
