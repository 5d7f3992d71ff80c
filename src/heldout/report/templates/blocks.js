// Packed blocks of data behind the text of the page: gzip in base64, unpacked when they are asked for.
"use strict";
const packedBlocks = {
  readable: "DecompressionStream" in window,
  async unpack(id) {
    const text = document.getElementById(id).textContent;
    const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).json();
  },
  // The blocks that were read last stay unpacked.
  reader(prefix, most = 48) {
    const kept = new Map();
    return (number) => {
      if (!kept.has(number)) kept.set(number, packedBlocks.unpack(prefix + number));
      while (kept.size > most) kept.delete(kept.keys().next().value);
      return kept.get(number);
    };
  },
  // A picture of the gallery's blocks as a node; its name says which block holds it.
  holder: (name) => Number(name.slice(1).split("-")[0]),
  image(id, [width, height, webp]) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", "image");
    const set = { id, width, height, preserveAspectRatio: "none", href: "data:image/webp;base64," + webp };
    for (const [key, value] of Object.entries(set)) made.setAttribute(key, value);
    return made;
  },
};
