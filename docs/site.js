// What the theme makes without a name or without a way to reach it by keyboard gets both, whenever it appears.
new MutationObserver(() => {
  document.querySelectorAll(".md-code__nav").forEach((nav, place) => {
    if (!nav.hasAttribute("aria-label")) nav.setAttribute("aria-label", "code block " + (place + 1));
  });
  document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])").forEach((table) => { table.tabIndex = 0; });
}).observe(document, { childList: true, subtree: true });
