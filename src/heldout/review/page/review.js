// The page: one card after the other, judged by keyboard; verdicts are on disk before the next card appears.
import { Refused, choose, get, picture, post } from "./api.js";
import { MODES, Stage } from "./stage.js";
import { key, make, visible } from "./text.js";
import { beside, texts } from "./texts.js";
import { words } from "./words.js";

const $ = (name) => document.getElementById(name);
const stage = new Stage($("stage"), { swipe: $("swipe"), legend: $("legend"), zoom: $("zoom") });
let session, card, order, judged, busy = false, ratings = {}, scaleHere = 0, looked = 0, since = null, undecidedLeft = 0;
const done = []; // cards judged in this tab, for undo

async function start() {
  choose(location.hash.slice(1));
  session = await get("/api/session").catch((error) => {
    if (!(error instanceof Refused) || error.status !== 404) throw error;
    choose(""); // the address names a kind that this run does not have
    return get("/api/session");
  });
  const kind = session.kind[0].toUpperCase() + session.kind.slice(1);
  document.title = `${visible(session.title)}: ${session.kind}`;
  $("title").textContent = `${kind} of ${visible(session.title)}`;
  $("rater").textContent = `${visible(session.rater)}${session.blind ? ", blinded" : ""}`;
  $("kind").append(...session.kinds.map((one) => make("option", { value: one.kind, selected: one.kind === session.kind }, `${one.kind} (${one.total})`)));
  $("kind-label").hidden = session.kinds.length < 2;
  $("stage-bar").hidden = session.kind === "texts";
  $("order").append(...session.orders.map((one) => make("option", { value: one.name }, one.label)));
  $("order-label").hidden = session.orders.length < 2;
  $("agreement-open").hidden = session.blind;
  const { order: last, filters: chosen } = session.remembered;
  if (session.orders.some((one) => one.name === last)) $("order").value = last;
  buildFilters(chosen ?? {});
  if (!arrange()) clearFilters();
  buildModes();
  buildVerdicts();
  buildScales();
  buildHelp();
  progress(await get("/api/progress"));
  const first = order.findIndex((index) => !(index in judged));
  await go(first < 0 ? 0 : first);
}

function progress(counts) {
  judged = counts.judged;
  const count = Object.keys(judged).length;
  $("bar").max = counts.total;
  $("bar").value = count;
  const left = session.undecided.filter((index) => !(index in judged)).length;
  $("count").textContent = `${count} of ${counts.total} judged${left ? `, ${left} undecided left` : ""}${session.every > session.total ? `; ${session.every - session.total} less urgent pairs are not here` : ""}`;
  if (undecidedLeft && !left && count < counts.total) alertUser("You have judged every undecided card. Your judgements count once a second rater agrees. The cards that follow change the result less: stop here, or go on.", true);
  undecidedLeft = left;
  const others = (counts.raters ?? []).filter((one) => one.rater !== session.rater);
  $("raters").textContent = others.map((one) => `${visible(one.rater)} ${one.judged}`).join(" · ");
  $("raters").title = "judged by others";
}

// --- which cards, in which order

const filters = () => [...$("filters").querySelectorAll("select")];

function buildFilters(chosen) {
  $("filters").append(...session.filters.map((one) => {
    const options = one.choices.map((choice, place) => make("option", { value: place }, `${visible(choice.value)} (${choice.cards})`));
    const select = make("select", { "data-filter": one.name, onchange: rearrange }, make("option", { value: "" }, "all"), options);
    const place = one.choices.findIndex((choice) => choice.value === chosen[one.name]);
    select.value = place < 0 ? "" : String(place);
    return make("label", { class: "quiet" }, `${one.name[0].toUpperCase()}${one.name.slice(1)} `, select);
  }));
}

const chosenFilters = () => filters().map((select) => [select.value, session.filters.find((one) => one.name === select.dataset.filter)]).filter(([value]) => value !== "");

// The cards that every filter lets through; false where there are none.
function arrange() {
  const wanted = chosenFilters();
  const cards = session.orders.find((one) => one.name === $("order").value).cards;
  const kept = cards.filter((index) => wanted.every(([value, filter]) => filter.cards[index].includes(Number(value))));
  if (kept.length) order = kept;
  return kept.length > 0;
}

function clearFilters() {
  for (const select of filters()) select.value = "";
  arrange();
}

async function rearrange(event) {
  const none = !arrange();
  event.target.blur();
  if (none) {
    event.target.value = "";
    arrange();
    say("No card is left by these filters: the last one was taken off.");
    alertUser("No card is left by these filters: the last one was taken off.");
  } else quiet();
  const chosen = Object.fromEntries(chosenFilters().map(([value, filter]) => [filter.name, filter.choices[Number(value)].value]));
  post("/api/desk", { order: $("order").value, filters: chosen }).catch(() => {}); // a convenience, not a judgement
  const first = order.findIndex((index) => !(index in judged));
  await go(first < 0 ? 0 : first);
}

// How long a card was on the screen: the clock stands while the tab is hidden.
function look() {
  if (since !== null) looked += (performance.now() - since) / 1000;
  since = document.hidden ? null : performance.now();
}

// --- one card

// Nobody judges what is not on the screen yet.
const seen = (index) => { document.body.dataset.shown = String(index); looked = 0; since = document.hidden ? null : performance.now(); };
const unseen = () => { delete document.body.dataset.shown; };
const placeOf = (index) => order.indexOf(index);

async function go(place) {
  const index = order[place];
  unseen();
  let found;
  try {
    found = await get(`/api/cards/${index}`);
  } catch (error) {
    return fail(error);
  }
  card = found;
  $("place").textContent = `${place + 1} / ${order.length}`;
  $("previous").disabled = place === 0;
  $("next").disabled = place === order.length - 1;
  draft();
  $("words").replaceChildren(...words(session, card));
  $("words").scrollTop = 0;
  marks();
  pictures(index, place);
}

async function pictures(index, place) {
  if (session.kind === "texts") {
    texts($("stage"), $("legend"), card.content);
    seen(index); // it is the words that are judged
    const found = await Promise.all(card.pictures.map((one, place) => picture(index, place))).catch(() => []);
    if (card.index === index) beside($("stage"), found.map((one, place) => ({ ...one, ...card.pictures[place] })));
    return;
  }
  const loading = card.pictures.map((one, side) => picture(index, side));
  const loaded = await Promise.all(loading).catch(() => null);
  if (card.index !== index) return; // somebody went on meanwhile
  if (!loaded) return fail(new Error("the server does not answer"));
  const shown = loaded.map((one, side) => ({ ...one, side: SIDES[card.pictures[side].side] ?? card.pictures[side].side, label: label(card.pictures[side]) }));
  stage.fit();
  stage.show(shown, { laid: card.content.laid ?? null, inverted: card.content.inverted, overlays: session.kind === "matches" && shown.length === 2 });
  modes();
  seen(index);
  const next = order[place + 1];
  if (next !== undefined && session.kind === "matches") for (const side of [0, 1]) picture(next, side).catch(() => {});
}

const label = ({ side, name }) => (session.kind === "items" ? visible(name) : session.kind === "twins" ? side : `${SIDES[side]}: ${visible(name)}`);
const SIDES = { query: "benchmark", neighbour: "corpus" };

function step(by) {
  const place = placeOf(card.index) + by;
  if (place >= 0 && place < order.length) return go(place);
}

// --- judging

// What was typed or rated before the verdict survives a reload of this tab.
const draftKey = () => `heldout ${session.rater} ${session.kind} ${card.subject}`;

function draft() {
  const kept = JSON.parse(sessionStorage.getItem(draftKey()) ?? "null");
  const known = kept ?? card.mine ?? {};
  $("note").value = known.note ?? "";
  ratings = { ...(known.ratings ?? {}) };
  if (card.mine) for (const scale of session.scales) ratings[scale.name] ??= null; // judged without it
  scaleHere = Math.max(0, session.scales.findIndex((scale) => !(scale.name in ratings)));
}

function keepDraft() {
  sessionStorage.setItem(draftKey(), JSON.stringify({ note: $("note").value, ratings }));
}

async function judge(verdict, { stay = false } = {}) {
  if (busy || !card) return;
  if (document.body.dataset.shown !== String(card.index)) return say("Wait: the pictures are still being read.");
  busy = true;
  const index = card.index;
  look();
  const said = { verdict, note: $("note").value.trim(), ratings: given(ratings), seen: card.mine?.time ?? null, seconds: Math.min(looked, 86400) };
  try {
    const saved = await post(`/api/cards/${index}/judgement`, said);
    card.mine = saved.mine;
    sessionStorage.removeItem(draftKey());
    if (!stay) unseen();
    quiet();
    progress(saved.progress);
    done.push(index);
    say(`Saved: ${verdict}.`);
    marks();
    if (!stay) await onward(index);
  } catch (error) {
    if (error instanceof Refused && error.status === 409) await elsewhere(error.body, index);
    else fail(error);
  } finally {
    busy = false;
  }
}

async function onward(index) {
  const here = placeOf(index);
  const open = (place) => !(order[place] in judged);
  for (let place = here + 1; place < order.length; place += 1) if (open(place)) return go(place);
  for (let place = 0; place < here; place += 1) if (open(place)) return go(place);
  say("Everything is judged.");
  return go(Math.min(here + 1, order.length - 1));
}

async function elsewhere(body, index) {
  card = body.card;
  progress(await get("/api/progress"));
  marks();
  const known = card.mine ? `as “${card.mine.verdict}”` : "and taken back";
  alertUser(`This was judged in another tab ${known}. Nothing was overwritten: judge again to replace it.`);
}

async function undo() {
  if (busy) return;
  busy = true;
  try {
    const undone = await post("/api/undo", { index: done.pop() ?? null });
    progress(undone.progress);
    if (undone.index === null) return say("There is nothing to undo.");
    quiet();
    if (placeOf(undone.index) < 0) clearFilters(); // it lies outside what is filtered
    await go(placeOf(undone.index));
    say("Taken back.");
  } catch (error) {
    fail(error);
  } finally {
    busy = false;
  }
}

// Not applicable (null) is shown here and left out of the log.
const given = (rated) => Object.fromEntries(Object.entries(rated).filter(([, value]) => value !== null));

function rate(value) {
  const scale = session.scales[scaleHere];
  if (!scale) return;
  ratings[scale.name] = value;
  keepDraft();
  say(`${scale.label}: ${value ?? "not applicable"}`);
  scaleHere = Math.min(session.scales.length - 1, scaleHere + 1);
  marks();
}

// --- what is drawn

function buildVerdicts() {
  $("buttons").append(...session.verdicts.map((one) =>
    make("button", { type: "button", "data-verdict": one.value, title: one.help, "aria-keyshortcuts": one.key, onclick: () => judge(one.value) }, key(one.key), one.label)));
}

function buildScales() {
  $("scales").hidden = !session.scales.length;
  session.scales.forEach((scale, place) => {
    const points = [1, 2, 3, 4, null].map((value) =>
      make("button", { type: "button", "data-value": value ?? "na", "aria-label": `${scale.label}: ${value ?? "not applicable"}`, onclick: () => { scaleHere = place; rate(value); } }, value ?? "n/a"));
    $("scales").append(make("div", { class: "scale", role: "group", "aria-label": scale.label, "data-scale": scale.name, title: scale.help }, make("span", {}, scale.label), make("div", { class: "points" }, points)));
  });
}

function buildModes() {
  if (session.kind !== "matches") return;
  $("modes").append(...MODES.map(([mode, name, shortcut]) =>
    make("button", { type: "button", "data-mode": mode, "aria-keyshortcuts": shortcut, onclick: () => show(mode) }, `${name} `, key(shortcut))));
  $("modes").append(make("button", { type: "button", "data-mode": "aligned", "aria-keyshortcuts": "a", onclick: align }, "Align ", key("a")));
}

function show(mode) {
  stage.set(mode);
  modes();
}

function align() {
  stage.toggleAligned();
  modes();
}

function modes() {
  for (const button of $("modes").children) {
    const mode = button.dataset.mode;
    button.setAttribute("aria-pressed", String(mode === "aligned" ? stage.aligned : stage.shownMode === mode));
    button.disabled = mode === "aligned" ? stage.shownMode !== "side" : !stage.pictures?.every((one) => one.url);
  }
}

function marks() {
  for (const button of $("buttons").children) button.setAttribute("aria-pressed", String(button.dataset.verdict === card.mine?.verdict));
  const here = session.scales[scaleHere];
  $("scale-help").textContent = here ? `${here.label}: ${here.help} 4 is excellent, 1 is poor.` : "";
  [...$("scales").children].forEach((group, place) => {
    group.classList.toggle("here", place === scaleHere);
    for (const button of group.querySelectorAll("button")) {
      const value = ratings[group.dataset.scale];
      button.setAttribute("aria-pressed", String(value !== undefined && button.dataset.value === String(value ?? "na")));
    }
  });
}

function say(text) {
  $("spoken").textContent = text;
}

function alertUser(text, good = false) {
  $("alert").textContent = text;
  $("alert").classList.toggle("good", good);
  $("alert").hidden = false;
}

function quiet() {
  $("alert").hidden = true;
}

function fail(error) {
  const lost = error instanceof Refused ? error.message : `${error.message}. What was saved before is on disk; start heldout review again`;
  alertUser(`Not saved: ${lost}.`);
}

async function agreement() {
  try {
    const { tables, message } = await get("/api/agreement");
    const drawn = tables.map((table) =>
      make("div", { class: "scroll", tabindex: "0" }, make("table", {}, make("caption", {}, table.title),
        make("thead", {}, make("tr", {}, table.columns.map((name) => make("th", { scope: "col" }, name)))),
        make("tbody", {}, table.rows.map((row) => make("tr", {}, row.map((cell) => make("td", {}, cell)))))),
        table.note && make("p", { class: "soft small" }, table.note)));
    $("tables").replaceChildren(...(drawn.length ? drawn : [make("p", {}, message || "Nobody judged anything yet.")]));
    $("agreement").showModal();
    $("agreement").scrollTop = 0; // focus is on the button at its end
  } catch (error) {
    fail(error);
  }
}

// --- keys

function keys() {
  const moving = [["→ j", "next"], ["← k", "previous"], ["n", "write a note; Enter keeps it, Escape leaves it"], ["u", "undo: take the last verdict back and return to it"]];
  const looking = session.kind === "texts" ? [] : [["+ − 0", "zoom in, out, fit"], ["Shift + arrows", "pan"]];
  if (session.kind === "matches") looking.unshift(...MODES.map(([, name, shortcut]) => [shortcut, name.toLowerCase()]), ["a", "align the corpus picture with the benchmark picture"], ["Space", "blink: stop, and turn by hand"], ["[ ]", "move the line of the swipe; a weaker or stronger difference"]);
  const rating = session.scales.length ? [["1 to 4", "rate the marked scale and go to the next (4 is excellent)"], ["x", "not applicable"], ["↑ ↓", "another scale"]] : [];
  return [...rating, ...session.verdicts.map((one) => [one.key, `${one.label.toLowerCase()}: ${one.help}`]), ...moving, ...looking, ["?", "these keys"]];
}

function buildHelp() {
  $("keys").append(...keys().flatMap(([name, meaning]) => [make("dt", {}, name.split(" ").map((one) => [key(one), " "]).flat()), make("dd", {}, meaning)]));
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || !card || document.querySelector("dialog[open]")) return;
  if (event.target === $("note")) return inNote(event);
  if (event.target.matches("select, input")) return;
  const act = action(event);
  if (act) {
    event.preventDefault();
    act();
  }
}

function action({ key: pressed, shiftKey, target }) {
  const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[pressed];
  if (shiftKey && arrows && session.kind !== "texts") return () => stage.pan(arrows[0] * 0.12, arrows[1] * 0.12);
  if (session.scales.length) {
    if (/^[1-4]$/.test(pressed)) return () => rate(Number(pressed));
    if (pressed === "x") return () => rate(null);
    if (arrows?.[1]) return () => { scaleHere = (scaleHere + arrows[1] + session.scales.length) % session.scales.length; marks(); };
  }
  const verdict = session.verdicts.find((one) => one.key === pressed);
  if (verdict) return () => judge(verdict.value);
  const mode = session.kind === "matches" && MODES.find(([, , shortcut]) => shortcut === pressed);
  if (mode) return () => show(mode[0]);
  if (pressed === " " && (target.matches("button") || stage.shownMode !== "blink")) return null;
  return {
    ArrowRight: () => step(1), j: () => step(1), ArrowLeft: () => step(-1), k: () => step(-1),
    n: () => $("note").focus(), u: undo, "?": () => $("help").showModal(),
    "+": () => stage.zoom(1.4), "=": () => stage.zoom(1.4), "-": () => stage.zoom(1 / 1.4), 0: () => stage.fit(),
    " ": () => stage.turn(true), "[": () => stage.slide(-1), "]": () => stage.slide(1),
    a: session.kind === "matches" ? align : undefined,
  }[pressed];
}

function inNote(event) {
  if (event.key !== "Enter" && event.key !== "Escape") return;
  event.preventDefault();
  $("stage").focus({ preventScroll: true });
  if (event.key === "Escape") {
    sessionStorage.removeItem(draftKey());
    draft();
  } else if (card.mine && card.mine.note !== $("note").value.trim()) judge(card.mine.verdict, { stay: true });
}

document.addEventListener("keydown", onKey);
// A verdict given by mouse must not be given again by the next Space.
document.addEventListener("click", (event) => event.detail > 0 && event.target.closest(".judge button")?.blur());
$("note").addEventListener("input", keepDraft);
$("previous").addEventListener("click", () => step(-1));
$("next").addEventListener("click", () => step(1));
$("undo").addEventListener("click", undo);
$("kind").addEventListener("change", (event) => {
  location.hash = event.target.value;
  location.reload();
});
$("zoom-in").addEventListener("click", () => stage.zoom(1.4));
$("zoom-out").addEventListener("click", () => stage.zoom(1 / 1.4));
$("zoom-fit").addEventListener("click", () => stage.fit());
$("help-open").addEventListener("click", () => $("help").showModal());
$("agreement-open").addEventListener("click", agreement);
$("order").addEventListener("change", rearrange);
document.addEventListener("visibilitychange", async () => {
  look();
  if (!document.hidden && session) progress(await get("/api/progress").catch(() => ({ judged, total: session.total })));
});
start().catch(fail);
