// The stage: pictures side by side or on each other, zoomed and panned in step.
import { make } from "./text.js";

export const MODES = [
  ["side", "Side by side", "s"],
  ["blink", "Blink", "b"],
  ["difference", "Difference", "d"],
  ["swipe", "Swipe", "w"],
];
const LEGEND = {
  side: "Both as they are; zoom and pan move them in step.",
  aligned: "The corpus picture is aligned with the benchmark picture; zoom and pan move both.",
  blink: "Benchmark and corpus picture take turns in one frame. Space stops, and turns by hand.",
  difference: "Black is equal, bright differs; [ and ] make it stronger or weaker. Hatched: only the benchmark picture is there.",
  swipe: "Left of the line the benchmark picture, right of it the corpus picture. [ and ] move the line.",
};
const BLINK = 650;
// What the slider sets: where the line of the swipe is (percent), how many times as strong a difference is drawn.
const SLIDERS = {
  swipe: { label: "How much of the corpus picture is drawn over the benchmark picture", min: 0, max: 100, step: 5, value: 50 },
  difference: { label: "How many times as strong the difference is drawn", min: 1, max: 10, step: 1, value: 3 },
};

export class Stage {
  constructor(root, { swipe, legend, zoom }) {
    Object.assign(this, { root, swipe, legend, zoomShown: zoom });
    this.mode = "side";
    this.aligned = false;
    this.slid = { swipe: SLIDERS.swipe.value, difference: SLIDERS.difference.value };
    this.fit();
    swipe.addEventListener("input", () => { this.slid[this.shownMode] = Number(swipe.value); this.draw(); });
    new ResizeObserver(() => this.draw()).observe(root);
    root.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    root.addEventListener("pointerdown", (event) => this.grab(event));
    root.addEventListener("dblclick", () => this.fit());
  }

  // pictures: [{label, url, width, height, origin, why}]; laid: neighbour to query, 3 × 3, or null
  show(pictures, { laid = null, inverted = false, overlays = false } = {}) {
    Object.assign(this, { pictures, overlays, inverted });
    this.registered = laid !== null;
    const [query, neighbour] = pictures;
    this.laid = overlays ? (laid ?? stretched(query, neighbour)) : null;
    this.build();
  }

  set(mode) {
    this.mode = mode;
    this.build();
  }

  toggleAligned() {
    this.aligned = !this.aligned;
    this.build();
  }

  get shownMode() {
    const whole = this.overlays && this.pictures.every((one) => one.url);
    return whole ? this.mode : "side";
  }

  build() {
    clearInterval(this.blinking);
    const mode = this.shownMode;
    this.panes = mode === "side" ? this.pictures.map((one, place) => this.single(one, place)) : [this.overlay(mode)];
    this.root.replaceChildren(...this.panes.map((pane) => pane.element));
    this.slider(SLIDERS[mode]);
    const text = mode === "side" ? (this.overlays && this.aligned ? LEGEND.aligned : this.overlays ? LEGEND.side : "") : LEGEND[mode];
    const guess = this.overlays && !this.registered && mode !== "side" ? " They could not be aligned: stretched to the same frame." : "";
    this.legend.textContent = text + guess;
    if (mode === "blink") {
      this.over = true;
      const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
      if (!still) this.blinking = setInterval(() => this.turn(), BLINK);
    }
    this.draw();
  }

  slider(found) {
    this.swipe.hidden = !found;
    if (!found) return;
    Object.assign(this.swipe, { min: found.min, max: found.max, step: found.step, value: this.slid[this.shownMode] });
    this.swipe.setAttribute("aria-label", found.label);
  }

  slide(steps) {
    if (this.swipe.hidden) return;
    if (steps > 0) this.swipe.stepUp(steps);
    else this.swipe.stepDown(-steps);
    this.slid[this.shownMode] = Number(this.swipe.value);
    this.draw();
  }

  single(one, place) {
    const onQuery = this.overlays && this.aligned && place === 1 && one.url;
    const frame = onQuery ? this.pictures[0] : one;
    const world = make("div", { class: "world" });
    if (one.url) world.append(onQuery ? this.laidImage(one) : image(one));
    return { element: pane(one.label, [one], world), world, frame };
  }

  overlay(mode) {
    const [query, neighbour] = this.pictures;
    const under = make("div", { class: "world" }, image(query));
    const laid = this.laidImage(neighbour);
    if (mode === "difference") {
      under.classList.add("difference");
      under.append(laid, outside(query, neighbour, this.laid));
      under.style.width = `${query.width}px`;
      under.style.height = `${query.height}px`;
      under.style.overflow = "hidden";
      return { element: pane("difference", this.pictures, under), world: under, frame: query };
    }
    const above = make("div", { class: "world" }, laid);
    // Each on a layer of its own: where the neighbour does not reach, the query is not drawn either.
    const below = make("div", { class: "layer" }, under);
    const layer = make("div", { class: "layer" }, above);
    const parts = mode === "swipe" ? [below, layer, make("div", { class: "divider" })] : [below, layer];
    const element = pane(mode === "swipe" ? "benchmark | corpus" : "corpus", this.pictures, ...parts);
    return { element, world: under, above, below, layer, frame: query };
  }

  laidImage(neighbour) {
    const element = image(neighbour);
    const [[a, c, e], [b, d, f], [g, h, i]] = this.laid;
    element.style.transform = `matrix3d(${[a, b, 0, g, c, d, 0, h, 0, 0, 1, 0, e, f, 0, i].join(",")})`;
    if (this.inverted) element.style.filter = "invert(1)";
    return element;
  }

  turn(byHand = false) {
    if (this.shownMode !== "blink") return;
    if (byHand) clearInterval(this.blinking);
    this.over = !this.over;
    this.draw();
  }

  // where: the middle of the view as shares of the picture, so that frames of any size move in step
  fit() {
    this.view = { scale: 1, x: 0.5, y: 0.5 };
    if (this.panes) this.draw();
  }

  zoom(factor, x = 0.5, y = 0.5) {
    const scale = Math.min(40, Math.max(0.5, this.view.scale * factor));
    const moved = 1 / this.view.scale - 1 / scale;
    this.view.x += (x - 0.5) * moved;
    this.view.y += (y - 0.5) * moved;
    this.view.scale = scale;
    this.draw();
  }

  pan(x, y) {
    this.view.x = Math.min(1, Math.max(0, this.view.x + x / this.view.scale));
    this.view.y = Math.min(1, Math.max(0, this.view.y + y / this.view.scale));
    this.draw();
  }

  wheel(event) {
    event.preventDefault();
    const box = (event.target.closest(".pane") ?? this.root).getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width;
    const y = (event.clientY - box.top) / box.height;
    this.zoom(Math.exp(-event.deltaY / 400), x, y);
  }

  grab(event) {
    if (event.button !== 0) return;
    const box = (event.target.closest(".pane") ?? this.root).getBoundingClientRect();
    let [x, y] = [event.clientX, event.clientY];
    const move = (later) => {
      this.pan((x - later.clientX) / box.width, (y - later.clientY) / box.height);
      [x, y] = [later.clientX, later.clientY];
    };
    this.root.setPointerCapture(event.pointerId);
    this.root.addEventListener("pointermove", move);
    const drop = () => this.root.removeEventListener("pointermove", move);
    this.root.addEventListener("pointerup", drop, { once: true });
    this.root.addEventListener("pointercancel", drop, { once: true });
  }

  draw() {
    if (!this.panes) return;
    const { scale, x, y } = this.view;
    this.zoomShown.textContent = `${Math.round(scale * 100)} %`;
    for (const { element, world, above, below, layer, frame } of this.panes) {
      const [wide, tall] = [element.clientWidth, element.clientHeight];
      const zoomed = scale * Math.min(wide / frame.width, tall / frame.height);
      const left = wide / 2 - x * frame.width * zoomed;
      const top = tall / 2 - y * frame.height * zoomed;
      const transform = `translate(${left}px, ${top}px) scale(${zoomed})`;
      world.style.transform = transform;
      element.classList.toggle("sharp", zoomed > 3);
      if (above) above.style.transform = transform;
      if (layer && this.shownMode === "blink") {
        layer.style.visibility = this.over ? "visible" : "hidden";
        below.style.visibility = this.over ? "hidden" : "visible";
        element.querySelector("figcaption").textContent = this.over ? "corpus" : "benchmark";
      }
      if (this.shownMode === "difference") world.style.filter = `brightness(${this.slid.difference})`;
      if (layer && this.shownMode === "swipe") {
        layer.style.clipPath = `inset(0 0 0 ${this.slid.swipe}%)`;
        below.style.clipPath = `inset(0 ${100 - this.slid.swipe}% 0 0)`;
        element.querySelector(".divider").style.left = `${this.slid.swipe}%`;
      }
    }
  }
}

function image(one) {
  const element = make("img", { alt: one.label, draggable: "false" });
  element.src = one.url;
  element.style.width = `${one.width}px`;
  element.style.height = `${one.height}px`;
  return element;
}

function pane(label, pictures, ...inside) {
  const gone = pictures.filter((one) => !one.url);
  const element = make("figure", { class: "pane" }, make("figcaption", {}, label), inside);
  if (gone.length) element.append(make("p", { class: "gone" }, `No picture: ${gone[0].why}`));
  const small = pictures.filter((one) => one.origin === "thumbnail");
  if (small.length) {
    const which = pictures.length > 1 ? `${small.map((one) => one.side).join(" and ")}: ` : "";
    element.append(make("figcaption", { class: "origin", title: small[0].why }, `${which}thumbnail only`));
  }
  return element;
}

// Without a registration the neighbour fills the query's frame: enough to compare, and said so.
function stretched(query, neighbour) {
  return [[query.width / neighbour.width, 0, 0], [0, query.height / neighbour.height, 0], [0, 0, 1]];
}

function outside(query, neighbour, laid) {
  const corners = [[0, 0], [neighbour.width, 0], [neighbour.width, neighbour.height], [0, neighbour.height]].map(([x, y]) => {
    const [u, v, w] = laid.map(([a, b, c]) => a * x + b * y + c);
    return [u / w, v / w];
  });
  const cover = make("div", { class: "outside" });
  cover.style.width = `${query.width}px`;
  cover.style.height = `${query.height}px`;
  const frame = [[0, 0], [query.width, 0], [query.width, query.height], [0, query.height], [0, 0]];
  const points = [...frame, ...corners, corners[0], [0, 0]];
  cover.style.clipPath = `polygon(evenodd, ${points.map(([x, y]) => `${x}px ${y}px`).join(", ")})`;
  return cover;
}
