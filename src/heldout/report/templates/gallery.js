// The gallery's pages and filters. Cards come escaped from the report's own template; a block is unpacked
// when one of its cards is shown, and pictures stand on the page only while a card uses them.
(() => {
  "use strict";
  const gallery = document.getElementById("gallery");
  if (!gallery || !packedBlocks.readable) return; // the first page and its note stay
  const { per_page: size, rows } = JSON.parse(document.getElementById("gallery-index").textContent);
  const cards = document.getElementById("gallery-cards");
  const sprite = document.getElementById("gallery-pictures");
  const bar = document.getElementById("gallery-bar");
  const selects = [...bar.querySelectorAll("select")];
  const place = document.getElementById("gallery-place");
  const back = document.getElementById("gallery-back");
  const next = document.getElementById("gallery-next");
  const read = packedBlocks.reader("gallery-");
  const { holder, image } = packedBlocks;
  const target = (use) => use.getAttribute("href").slice(1);
  const fixed = [...document.querySelectorAll(".shown use")].map(target); // of the first screen: they stay
  let chosen = rows.map((_, at) => at);
  let page = 0;
  let asked = 0; // a page that is not wanted any more is not shown

  async function blocks(numbers) {
    const held = new Map();
    for (const number of numbers) held.set(number, await read(number));
    return held;
  }

  function tell() {
    const from = page * size + 1;
    const to = Math.min(from + size - 1, chosen.length);
    const number = (value) => value.toLocaleString("en");
    place.textContent = chosen.length
      ? number(from) + "–" + number(to) + " of " + number(chosen.length)
      : "none";
    const paper = document.getElementById("gallery-paper");
    if (paper) paper.textContent = number(Math.max(0, to - from + 1)) + " of " + number(rows.length) + " pairs; all are on the page.";
    back.disabled = page === 0;
    next.disabled = to >= chosen.length;
  }

  async function show() {
    const mine = ++asked;
    const shown = chosen.slice(page * size, (page + 1) * size);
    const texts = await blocks(new Set(shown.map((at) => Math.floor(at / size))));
    const drawn = document.createElement("template");
    drawn.innerHTML = shown.map((at) => texts.get(Math.floor(at / size)).cards[at % size]).join("");
    const uses = [...drawn.content.querySelectorAll("use")].map(target);
    const names = [...new Set([...fixed, ...uses])];
    const held = await blocks(new Set(names.map(holder)));
    if (mine !== asked) return;
    sprite.replaceChildren(...names.map((name) => image(name, held.get(holder(name)).pictures[name])));
    cards.replaceChildren(drawn.content);
    tell();
  }

  async function turn(by) {
    const last = Math.max(0, Math.ceil(chosen.length / size) - 1);
    const to = Math.min(Math.max(page + by, 0), last);
    if (to === page) return;
    page = to;
    await show();
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
