// A button beside every command. Without scripts the commands are there, and one click selects a whole one.
(() => {
  "use strict";
  for (const code of document.querySelectorAll(".command code")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "copy";
    button.setAttribute("aria-label", "copy: " + code.textContent);
    button.addEventListener("click", async () => {
      let copied = true;
      try {
        await navigator.clipboard.writeText(code.textContent);
      } catch {
        getSelection().selectAllChildren(code);
        copied = document.execCommand("copy");
      }
      button.textContent = copied ? "copied" : "press Ctrl+C";
      setTimeout(() => { button.textContent = "copy"; }, 2000);
    });
    code.closest(".command").append(button);
  }
})();
