"use strict";
// Without JavaScript the page is whole; this only adds the copy buttons.
for (const block of document.querySelectorAll("pre[data-copy]")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    const code = block.querySelector("code");
    let copied = true;
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch {
      // Pages opened from disk may not use the clipboard directly: select the text, so that the keyboard can.
      getSelection().selectAllChildren(code);
      copied = document.execCommand("copy");
    }
    button.textContent = copied ? "Copied" : "Press Ctrl+C";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  const frame = document.createElement("div");
  frame.className = "frame";
  block.replaceWith(frame);
  frame.append(block, button);
}
