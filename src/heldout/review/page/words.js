// What is known of a card, in words. Everything here is somebody else's text.
import { make } from "./text.js";

const LEAKED = { full: "with question and answer", "image and question": "with the question", "image only": "picture alone" };

export function words(session, card) {
  const parts = { matches: matchWords, texts: textWords, twins: twinWords, items: itemWords }[session.kind](card.content, card.hint);
  return [...parts, ...others(card)];
}

function matchWords(content, hint) {
  const { query, neighbour } = content;
  const asked = query.questions.flatMap((one, place) => [place ? make("hr") : null, ...question(one)]);
  return [
    ...(hint ? [heading("The tool says"), ...opinion(hint)] : []),
    heading("Benchmark"),
    listed({ image: query.name, items: query.questions.map((one) => one.id).join(", "), ...query.metadata }),
    ...asked,
    heading("Corpus"),
    listed({ found: neighbour.places.join("\n"), file: neighbour.file }),
    neighbour.question && make("p", { class: "ask" }, neighbour.question),
    neighbour.answer && make("p", {}, `Answer: ${neighbour.answer}`),
    neighbour.text && make("p", {}, neighbour.text),
  ].filter(Boolean);
}

const METHOD = { exact: "equal texts", ngram: "runs of words", edit: "small edits", embedding: "similar meaning" };
const ANSWER = { same: "same answer", different: "another answer" };

function textWords({ query, neighbour }, hint) {
  return [
    ...(hint ? [heading("The tool says"), ...textOpinion(hint)] : []),
    heading("Benchmark"),
    listed({ items: query.items.join("\n"), image: query.image, ...query.metadata }),
    heading("Corpus"),
    listed({ found: neighbour.places.join("\n"), picture: neighbour.pictured ? "the text stands beside a picture" : "the text stands alone" }),
  ];
}

function textOpinion(hint) {
  const tags = [make("span", { class: "tag strong" }, hint.relation), make("span", { class: "tag" }, hint.degree === "none" ? "counts for nothing" : `${hint.degree} evidence`), ANSWER[hint.answer] && make("span", { class: "tag" }, ANSWER[hint.answer])];
  const judge = hint.judge && `${hint.judge.name}: ${hint.judge.verdict}${hint.judge.why ? ` (${hint.judge.why})` : ""}`;
  const notes = [hint.common && "the benchmark asks this of several pictures, so it identifies none", hint.short && "few words: they count only with their answer"];
  return [make("div", { class: "tags" }, tags), listed({
    "found by": `${hint.method.map((one) => METHOD[one] ?? one).join(", ")}; similarity ${hint.similarity.toFixed(3)}`,
    pictures: hint.picture, note: notes.filter(Boolean).join("; "), "a model": judge,
  })];
}

function opinion(hint) {
  const found = hint.registration;
  const numbers = {
    "found by": `${foundBy(hint.method)}, similarity ${hint.similarity.toFixed(3)}`,
    undecided: hint.undecided,
    "agreement once aligned": found.detail != null ? found.detail.toFixed(2) + (found.correlation != null ? ` (whole picture ${found.correlation.toFixed(2)})` : "") : null,
    overlap: found.overlap ? found.overlap.map((share, side) => `${Math.round(share * 100)} % of the ${side ? "corpus" : "benchmark"} picture`).join(", ") : null,
    "not compared": hint.undecided ? null : hint.unverified,
  };
  const tags = [make("span", { class: "tag strong" }, hint.relation), hint.transform && hint.transform !== "none" && make("span", { class: "tag" }, hint.transform)];
  const worst = ["full", "image and question", "image only"].find((one) => hint.modality.includes(one));
  const beside = worst && make("span", { class: "tag" }, LEAKED[worst]);
  return [make("div", { class: "tags" }, tags, beside), listed(numbers)];
}

const foundBy = (method) => method.startsWith("pixels-") ? `heldout's own comparison of pictures (${method.split(" | ")[0]})` : method.split(" | ")[0];

function twinWords(content, hint) {
  return [
    heading("Question"),
    make("p", { class: "ask" }, content.question),
    options(content.options, content.new_answer),
    make("div", { class: "answers" },
      make("div", {}, make("small", {}, "answer before"), content.old_answer),
      make("span", { "aria-hidden": "true" }, "→"),
      make("div", {}, make("small", {}, "answer of the twin"), content.new_answer)),
    ...(content.caption ? [heading("The twin should show"), make("p", {}, content.caption)] : []),
    heading("Where it comes from"),
    listed({ item: content.id, image: content.image_name, renderer: content.renderer }),
    ...(hint?.verifier ? [heading("The verifier says"), make("div", { class: "tags" }, make("span", { class: "tag strong" }, hint.verifier)), make("p", {}, hint.reason)] : []),
  ];
}

function itemWords(content, hint) {
  return [
    heading("Item"),
    ...question(content),
    heading("Where it comes from"),
    listed({ item: content.id, ...content.metadata }),
    ...(hint?.rubric?.length ? [heading("The verifier's rubric"), rubric(hint)] : []),
  ];
}

function rubric(hint) {
  const decision = hint.accepted == null ? "" : hint.accepted ? "accepted" : "rejected";
  const lines = hint.rubric.map((line) =>
    make("li", {},
      make("span", { class: (line.met ?? Number(line.score) !== 0) ? "" : "failed" }, `${line.title ?? ""}: ${line.score ?? "?"}`),
      line.category ? ` (${line.category})` : "",
      line.notes ? ` ${line.notes}` : ""));
  return make("div", {}, decision && make("div", { class: "tags" }, make("span", { class: "tag strong" }, decision)), make("ul", {}, lines));
}

function question({ question: asked, options: choices, answer }) {
  const listedAnswer = choices?.includes(answer);
  return [
    asked && make("p", { class: "ask" }, asked),
    choices?.length ? options(choices, answer) : null,
    answer && !listedAnswer ? make("p", {}, `Answer: ${answer}`) : null,
  ].filter(Boolean);
}

function options(choices, answer) {
  const lettered = make("ol", { type: "A" });
  for (const choice of choices) lettered.append(make("li", { class: choice === answer ? "right" : "" }, choice));
  return lettered;
}

function others({ others: said }) {
  if (!said?.length) return [];
  return [heading("Other raters"), make("ul", {}, said.map((one) => make("li", {}, `${one.rater}: ${one.verdict}${one.note ? ` (${one.note})` : ""}`)))];
}

const heading = (text) => make("h2", {}, text);

function listed(fields) {
  const list = make("dl");
  for (const [name, value] of Object.entries(fields)) {
    if (value) list.append(make("dt", {}, name), make("dd", {}, value));
  }
  return list;
}
