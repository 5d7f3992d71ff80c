// The gallery's pages and filters. Cards come escaped from the report's own template; a block of JSON is
// parsed when one of its cards is shown, and pictures stand on the page only while a card uses them.
(() => {
  "use strict";
  const gallery = document.getElementById("gallery");
  if (!gallery) return;
  const data = (id) => JSON.parse(document.getElementById(id).textContent);
  const { per_page: size, rows } = data("gallery-index");
  const cards = document.getElementById("gallery-cards");
  const sprite = document.getElementById("gallery-pictures");
  const bar = document.getElementById("gallery-bar");
  const selects = [...bar.querySelectorAll("select")];
  const place = document.getElementById("gallery-place");
  const back = document.getElementById("gallery-back");
  const next = document.getElementById("gallery-next");
  const SVG = "http://www.w3.org/2000/svg";
  const kept = new Map(); // the few blocks that were read last
  let chosen = rows.map((_, at) => at);
  let page = 0;

  function block(number) {
    if (!kept.has(number)) {
      if (kept.size > 32) kept.delete(kept.keys().next().value);
      kept.set(number, data("gallery-" + number));
    }
    return kept.get(number);
  }

  function draw(names) {
    sprite.replaceChildren(...[...names].map((name) => {
      const [width, height, webp] = block(Number(name.slice(1).split("-")[0])).pictures[name];
      const image = document.createElementNS(SVG, "image");
      image.id = name;
      image.setAttribute("width", width);
      image.setAttribute("height", height);
      image.setAttribute("preserveAspectRatio", "none");
      image.setAttribute("href", "data:image/webp;base64," + webp);
      return image;
    }));
  }

  function tell() {
    const pages = Math.max(1, Math.ceil(chosen.length / size));
    const from = page * size + 1;
    const to = Math.min(from + size - 1, chosen.length);
    const number = (value) => value.toLocaleString("en");
    place.textContent = chosen.length
      ? number(from) + "–" + number(to) + " of " + number(chosen.length)
      : "none";
    back.disabled = page === 0;
    next.disabled = page === pages - 1;
  }

  function show() {
    const shown = chosen.slice(page * size, (page + 1) * size);
    cards.innerHTML = shown.map((at) => block(Math.floor(at / size)).cards[at % size]).join("");
    draw(new Set([...cards.querySelectorAll("use")].map((use) => use.getAttribute("href").slice(1))));
    tell();
  }

  function turn(by) {
    const last = Math.max(0, Math.ceil(chosen.length / size) - 1);
    const to = Math.min(Math.max(page + by, 0), last);
    if (to === page) return;
    page = to;
    show();
    gallery.scrollIntoView({ block: "start" });
  }

  function choose() {
    chosen = [];
    rows.forEach((row, at) => {
      if (selects.every((one, n) => one.value === "" || row[n] === Number(one.value))) chosen.push(at);
    });
    page = 0;
    show();
  }

  selects.forEach((one) => one.addEventListener("change", choose));
  back.addEventListener("click", () => turn(-1));
  next.addEventListener("click", () => turn(1));
  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (/^(SELECT|INPUT|TEXTAREA)$/.test(event.target.tagName)) return;
    const box = gallery.getBoundingClientRect();
    if (box.top > window.innerHeight || box.bottom < 0) return; // it is not what is being looked at
    if (event.key === "ArrowRight" || event.key === "n") turn(1);
    else if (event.key === "ArrowLeft" || event.key === "p") turn(-1);
    else return;
    event.preventDefault();
  });
  selects.forEach((one) => { one.parentElement.hidden = one.options.length <= 2; });
  const note = document.getElementById("gallery-note");
  if (note) note.hidden = true;
  bar.hidden = rows.length <= size && selects.every((one) => one.parentElement.hidden);
  tell();
})();
