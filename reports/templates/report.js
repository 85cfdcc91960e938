"use strict";
// Without JavaScript the page is whole; this only adds to it.
document.documentElement.classList.add("js");

for (const block of document.querySelectorAll("pre[data-copy]")) {
  const button = document.createElement("button");
  button.className = "copy";
  button.textContent = "Copy";
  button.setAttribute("aria-label", `Copy: ${block.dataset.copy}`);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(block.textContent);
      button.textContent = "Copied";
      button.classList.add("done");
    } catch {
      // Where a page may not use the clipboard, the text is selected, so that the keyboard can.
      getSelection().selectAllChildren(block);
      button.textContent = "Press Ctrl+C";
    }
  });
  block.after(button);
}
