// Two texts side by side: the words that stand on one side only are marked.
import { make } from "./text.js";

const marked = (pieces) => pieces.map(([text, other]) => (other ? make("mark", {}, text) : text));

function side(name, label, ...parts) {
  return make("figure", { class: "pane reading", "data-side": name, tabindex: "0", "aria-label": label }, make("figcaption", {}, label), make("div", { class: "page" }, parts));
}

const answer = (text) => text && make("p", { class: "answer" }, make("small", {}, "Answer"), text);

export function texts(root, legend, { query, neighbour }) {
  const theirs = neighbour.texts.map((pieces, place) => [place ? make("hr") : null, make("p", { dir: "auto" }, marked(pieces))]);
  const shared = neighbour.shared && make("p", { dir: "auto" }, make("small", {}, "Further on in the text"), neighbour.shared);
  root.classList.add("texts");
  root.replaceChildren(
    side("query", "benchmark", make("p", { dir: "auto" }, marked(query.text)), answer(query.answer)),
    side("neighbour", "corpus", theirs, shared, answer(neighbour.answers.join(" / "))),
  );
  legend.textContent = "Marked words stand on one side only; capitals and spaces do not count.";
}

// Pictures stand below the words they stand beside in the data; one that is not found leaves no hole.
export function beside(root, pictures) {
  for (const one of pictures) {
    const page = root.querySelector(`[data-side="${one.side}"] .page`);
    if (!page || !one.url) continue;
    const image = make("img", { alt: one.name });
    image.src = one.url;
    page.append(image);
  }
}
