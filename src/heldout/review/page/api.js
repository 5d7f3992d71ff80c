// Talking to the server. A request that fails says so; nothing is taken as saved before it is.

// Which desk is meant: a run may have pictures and texts to judge.
let kind = "";
export const choose = (name) => { kind = name; };
const at = (path) => (kind ? `${path}?kind=${encodeURIComponent(kind)}` : path);

export class Refused extends Error {
  constructor(status, body) {
    super(body?.message ?? `the server answered ${status}`);
    this.status = status;
    this.body = body;
  }
}

async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error("the server does not answer");
  }
  const body = await answer.json().catch(() => null);
  if (!answer.ok) throw new Refused(answer.status, body);
  return body;
}

export const get = (path) => ask(at(path));

export const post = (path, value) =>
  ask(at(path), { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(value) });

const kept = new Map(); // the last pictures, so that going back and forth does not wait
const KEPT = 16;

export function picture(index, place) {
  const path = at(`/picture/${index}/${place}`);
  if (!kept.has(path)) {
    kept.set(path, load(path));
    if (kept.size > KEPT) {
      const [oldest, loading] = kept.entries().next().value;
      kept.delete(oldest);
      loading.then((found) => found.url && URL.revokeObjectURL(found.url), () => {});
    }
  }
  const loading = kept.get(path);
  loading.catch(() => kept.delete(path));
  return loading;
}

async function load(path) {
  const answer = await fetch(path);
  const origin = answer.headers.get("x-picture-origin") ?? "missing";
  const why = answer.headers.get("x-picture-why") ?? "";
  if (!answer.ok) return { origin, why, url: null, width: 1, height: 1 };
  const [width, height] = answer.headers.get("x-picture-size").split("x").map(Number);
  return { origin, why, url: URL.createObjectURL(await answer.blob()), width, height };
}
