"use strict";
// Without JavaScript the page is whole; this only adds to it.
document.documentElement.classList.add("js");

// --- copy -------------------------------------------------------------------------------------------------------------------

async function copyText(code) {
  try {
    await navigator.clipboard.writeText(code.textContent);
    return true;
  } catch {
    // Pages opened from disk may not use the clipboard directly: select the text, so that the keyboard can.
    getSelection().selectAllChildren(code);
    return document.execCommand("copy");
  }
}

for (const block of document.querySelectorAll("pre[data-copy]")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.setAttribute("aria-label", `Copy: ${block.dataset.copy}`);
  button.addEventListener("click", async () => {
    const copied = await copyText(block.querySelector("code"));
    button.textContent = copied ? "Copied" : "Press Ctrl+C";
    button.classList.toggle("done", copied);
    setTimeout(() => { button.textContent = "Copy"; button.classList.remove("done"); }, 2000);
  });
  const frame = document.createElement("div");
  frame.className = "frame";
  block.replaceWith(frame);
  frame.append(block, button);
}
