// On a narrow screen each row of a table stands as a block, every cell beside the name of its column.
(() => {
  "use strict";
  for (const table of document.querySelectorAll(".scroll > table:not(.items, .grid)")) {
    const names = [...table.querySelectorAll("thead th")].map((name) => (name.querySelector(".spoken") ? "" : name.textContent.trim()));
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.cells].forEach((cell, place) => { cell.dataset.label = names[place] || ""; });
    }
    table.classList.add("stack");
  }
})();
