// The table of items: search, filters, order and pages over packed columns, and one item opened at a time.
// Words become text nodes, never markup; only the gallery's own cards, escaped by its template, are HTML.
(async () => {
  "use strict";
  const section = document.getElementById("items");
  if (!section || !packedBlocks.readable) return; // the first rows and their note stay
  const at = (id) => document.getElementById(id);
  const columns = await packedBlocks.unpack("items-columns");
  const { rows: size, per_block: perBlock, statuses, colours, corpora, reach, models, outcomes } = columns;
  const items = columns.id.length;
  const readItems = packedBlocks.reader("items-");
  const readGallery = packedBlocks.reader("gallery-");
  const NONE = statuses.length - 1;
  const MARKS = { r: ["✓", "right"], w: ["✗", "wrong"], u: ["?", "not read"], "-": ["–", "not asked"] };
  const number = (value) => value.toLocaleString("en");
  const heads = [...section.querySelectorAll("th[data-sort]")];
  const shownModels = heads.filter((head) => head.dataset.sort.startsWith("model-")).length;
  const inputs = { status: at("items-status"), corpus: at("items-corpus"), answers: at("items-answers") };
  const value = (name) => (inputs[name] ? inputs[name].value : "");
  let words = null; // of every item in small letters, once somebody searches
  let found = new Uint8Array(items).fill(NONE);
  let chosen = [];
  let sorted = { by: "", up: true };
  let page = 0;
  let open = -1; // place in ``chosen``

  function node(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, text] of Object.entries(attributes)) made.setAttribute(name, text);
    made.append(...children);
    return made;
  }

  // What is found in the chosen corpus, or the gravest of all corpora: a place in ``statuses``.
  function find() {
    const wanted = value("corpus") === "" ? reach : [reach[Number(value("corpus"))]];
    found = new Uint8Array(items).fill(NONE);
    for (const signs of wanted) {
      for (let n = 0; n < items; n++) found[n] = Math.min(found[n], signs.charCodeAt(n) - 48);
    }
  }

  function choose() {
    find();
    const asked = at("items-search").value.toLowerCase().split(/\s+/).filter(Boolean);
    if (asked.length && !words) {
      words = columns.id.map((id, n) => (id + "\n" + columns.question[n] + "\n" + columns.answer[n]).toLowerCase());
    }
    const status = value("status");
    const exact = statuses.indexOf(status);
    const answered = value("answers");
    const replies = answered ? outcomes[parseInt(answered, 10)] : "";
    const outcome = answered.slice(-1);
    chosen = [];
    for (let n = 0; n < items; n++) {
      if (status === "leaked" ? colours[found[n]] !== "survives" : status && found[n] !== exact) continue;
      if (answered && replies[n] !== outcome) continue;
      if (asked.length && !asked.every((word) => words[n].includes(word))) continue;
      chosen.push(n);
    }
    order();
  }

  const collator = new Intl.Collator("en", { numeric: true });
  const OUTCOMES = "rwu-";
  function keys(by) {
    if (by === "status") return (n) => found[n];
    if (by === "position" || by === "hits") return (n) => columns[by][n];
    if (by.startsWith("model-")) return (n) => OUTCOMES.indexOf(outcomes[Number(by.slice(6))][n]);
    return null;
  }

  function order() {
    const { by, up } = sorted;
    const sign = up ? 1 : -1;
    if (by) {
      const key = keys(by);
      const text = columns[by];
      chosen.sort(key ? (a, b) => sign * (key(a) - key(b)) || a - b : (a, b) => sign * collator.compare(text[a], text[b]) || a - b);
    }
    heads.forEach((head) => {
      if (head.dataset.sort === by) head.setAttribute("aria-sort", up ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
    page = 0;
    show();
  }

  function row(place) {
    const n = chosen[place];
    const opener = node("button", { type: "button", class: "open" }, columns.id[n]);
    opener.addEventListener("click", () => openItem(place));
    const cells = [node("td", {}, opener), node("td", { class: "asks" }, columns.question[n]), node("td", { class: "key" }, columns.answer[n])];
    if (corpora.length) {
      cells.push(node("td", { class: "what " + colours[found[n]] }, node("span", { class: "found" }, statuses[found[n]])));
      cells.push(node("td", { class: "n" }, number(columns.hits[n])));
    }
    for (let m = 0; m < shownModels; m++) {
      const [mark, name] = MARKS[outcomes[m][n]];
      cells.push(node("td", { class: "model " + name.replace(" ", "-") }, node("span", { role: "img", "aria-label": name }, mark)));
    }
    return node("tr", {}, ...cells);
  }

  function show() {
    const last = Math.min((page + 1) * size, chosen.length);
    const rows = [];
    for (let place = page * size; place < last; place++) rows.push(row(place));
    at("items-rows").replaceChildren(...rows);
    at("items-place").textContent = chosen.length
      ? number(page * size + 1) + "–" + number(last) + " of " + number(chosen.length)
      : "no such item";
    at("items-back").disabled = page === 0;
    at("items-next").disabled = last >= chosen.length;
  }

  function turn(by) {
    page += by;
    show();
  }

  // One item.

  const part = (title, ...children) => node("section", {}, node("h4", {}, title), ...children);

  function table(titles, rows, extra = "") {
    const head = node("tr", {}, ...titles.map((title) => node("th", { scope: "col" }, title)));
    const lines = rows.map((cells) => node("tr", {}, ...cells.map((cell) => (cell instanceof Node ? cell : node("td", {}, String(cell))))));
    return node("div", { class: "scroll " + extra, tabindex: "0" }, node("table", {}, node("thead", {}, head), node("tbody", {}, ...lines)));
  }

  async function cards(numbers, more) {
    const size = JSON.parse(at("gallery-index").textContent).per_page;
    const holder = node("div", { class: "gallery" });
    const drawn = document.createElement("template");
    for (const number of numbers) {
      drawn.innerHTML += (await readGallery(Math.floor(number / size))).cards[number % size];
    }
    // The gallery may show the same card: names of what it draws have to differ.
    const pictures = new Map();
    for (const use of drawn.content.querySelectorAll("use")) {
      const name = use.getAttribute("href").slice(1);
      pictures.set(name, (await readGallery(packedBlocks.holder(name))).pictures[name]);
      use.setAttribute("href", "#item-" + name);
    }
    for (const clip of drawn.content.querySelectorAll("clipPath")) clip.id = "item-" + clip.id;
    for (const group of drawn.content.querySelectorAll("[clip-path]")) {
      group.setAttribute("clip-path", group.getAttribute("clip-path").replace("#clip", "#item-clip"));
    }
    const sprite = [...pictures].map(([name, picture]) => packedBlocks.image("item-" + name, picture));
    holder.append(drawn.content);
    const rest = more ? [node("p", { class: "small soft" }, "and " + number(more) + " more; tables/matches.parquet has all")] : [];
    return [sprite, part("Pictures that match", holder, ...rest)];
  }

  const outcomeCell = (outcome) => node("td", { class: outcome === "right" ? "right" : outcome === "wrong" ? "wrong" : "not-read" }, outcome);
  const replies = (rows) => table(["model", "asked as", "reply", "key", "outcome"], rows.map(([model, variant, reply, key, outcome]) => [model, variant, reply, key, outcomeCell(outcome)]));

  async function body(item) {
    const children = [node("p", { class: "sentence", dir: "auto" }, item.question || "(no question)")];
    if (item.options) children.push(node("ol", { type: "A" }, ...item.options.map((option) => node("li", { dir: "auto" }, option))));
    if (item.answer) children.push(node("p", { dir: "auto" }, "Answer: ", node("strong", {}, item.answer)));
    if (item.images) children.push(node("p", { class: "small soft" }, (item.images.length > 1 ? "pictures " : "picture ") + item.images.join(", ")));
    if (item.leaks) children.push(part("Found", table(["corpus", "what", "strongest match", "shown by"], item.leaks)));
    else if (corpora.length) children.push(node("p", {}, "No match in " + corpora.join(", ") + "."));
    let sprite = [];
    if (item.pairs) {
      const [drawn, matches] = await cards(item.pairs, item.more_pairs || 0);
      sprite = drawn;
      children.push(matches);
    }
    if (item.texts) {
      const titles = ["corpus", "item", "relation", "similarity", "words there", "answer there", "people"];
      const people = item.texts.some((text) => text[6]);
      const kept = (cells) => (people ? cells : cells.slice(0, 6));
      children.push(part("Words that match", table(kept(titles), item.texts.map(kept))));
    }
    if (item.answers) {
      const main = item.answers.filter((answer) => !answer[5]);
      const others = item.answers.filter((answer) => answer[5]);
      const parts = main.length ? [replies(main)] : [];
      if (others.length) parts.push(node("details", {}, node("summary", {}, number(others.length) + " replies to other forms of it"), replies(others)));
      children.push(part("Answers", ...parts));
    }
    if (item.scores) children.push(part("Scores of its answer", table(["model", "log-probability per token"], item.scores)));
    if (item.twins) children.push(part("Twins", table(["new answer", "caption", "what became of it"], item.twins)));
    if (item.judgements) children.push(part("Judgements", table(["of the", "rater", "verdict", "ratings", "note"], item.judgements)));
    if (item.metadata) {
      const terms = Object.entries(item.metadata).flatMap(([name, text]) => [node("dt", {}, name), node("dd", { dir: "auto" }, text)]);
      children.push(node("details", {}, node("summary", {}, "Other fields"), node("dl", {}, ...terms)));
    }
    return [sprite, children];
  }

  const dialog = at("item");
  async function openItem(place) {
    open = place;
    const n = chosen[place];
    const block = await readItems(Math.floor(n / perBlock));
    const [sprite, children] = await body(block[n % perBlock]);
    if (open !== place) return;
    at("item-title").textContent = columns.id[n];
    at("item-pictures").replaceChildren(...sprite);
    at("item-body").replaceChildren(...children);
    at("item-place").textContent = number(place + 1) + " of " + number(chosen.length);
    at("item-back").disabled = place === 0;
    at("item-next").disabled = place + 1 >= chosen.length;
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
    history.replaceState(null, "", "#item=" + encodeURIComponent(columns.id[n]));
  }

  function step(by) {
    if (open + by >= 0 && open + by < chosen.length) openItem(open + by);
  }

  // A link to an item opens it, whatever is filtered.
  function fromAddress() {
    if (!location.hash.startsWith("#item=")) return;
    let wanted;
    try {
      wanted = decodeURIComponent(location.hash.slice(6));
    } catch {
      return;
    }
    const n = columns.id.indexOf(wanted);
    if (n < 0) return;
    if (!chosen.includes(n)) chosen = columns.id.map((_, place) => place);
    openItem(chosen.indexOf(n));
  }

  let waiting;
  at("items-search").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(choose, 120);
  });
  Object.values(inputs).forEach((input) => input && input.addEventListener("change", choose));
  at("items-back").addEventListener("click", () => turn(-1));
  at("items-next").addEventListener("click", () => turn(1));
  at("item-back").addEventListener("click", () => step(-1));
  at("item-next").addEventListener("click", () => step(1));
  at("item-close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("close", () => {
    const place = open;
    open = -1;
    history.replaceState(null, "", "#items");
    page = Math.floor(place / size);
    show();
    const opener = section.querySelectorAll("button.open")[place % size];
    if (opener) opener.focus();
  });
  dialog.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (event.key === "ArrowRight") step(1);
    else if (event.key === "ArrowLeft") step(-1);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  for (const head of heads) {
    const button = node("button", { type: "button", class: "sort" }, head.textContent);
    button.addEventListener("click", () => {
      const by = head.dataset.sort;
      // Most matches first; everything else begins with its smallest.
      sorted = { by, up: sorted.by === by ? !sorted.up : by !== "hits" };
      order();
    });
    head.replaceChildren(button);
  }
  if (inputs.status) {
    find();
    const counts = new Map();
    found.forEach((place) => counts.set(statuses[place], (counts.get(statuses[place]) || 0) + 1));
    const leaked = found.reduce((sum, place) => sum + (colours[place] === "survives"), 0);
    for (const option of inputs.status.options) {
      const count = option.value === "leaked" ? leaked : counts.get(option.value);
      if (count !== undefined && option.value) {
        option.setAttribute("value", option.value);
        option.textContent += " (" + number(count) + ")";
      }
    }
  }
  const note = at("items-note");
  if (note) note.hidden = true;
  at("items-bar").hidden = false;
  at("items-how").hidden = false;
  choose();
  window.addEventListener("hashchange", fromAddress);
  fromAddress();
})();
