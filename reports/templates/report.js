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

// --- what a figure means ----------------------------------------------------------------------------------------------------

const tip = document.createElement("div");
tip.id = "tip";
tip.role = "tooltip";
tip.hidden = true;
document.body.append(tip);

function showTip(term) {
  tip.textContent = term.dataset.tip;
  tip.hidden = false;
  term.setAttribute("aria-describedby", "tip");
  const at = term.getBoundingClientRect();
  const left = Math.min(Math.max(8, at.left), innerWidth - tip.offsetWidth - 8);
  const below = at.bottom + 8 + tip.offsetHeight < innerHeight;
  tip.style.left = `${left}px`;
  tip.style.top = `${below ? at.bottom + 8 : at.top - tip.offsetHeight - 8}px`;
}

function hideTip(term) {
  tip.hidden = true;
  term?.removeAttribute("aria-describedby");
}

for (const term of document.querySelectorAll("a.term")) {
  // The browser's own tip would stand beside ours.
  term.dataset.tip = term.title;
  term.removeAttribute("title");
  for (const event of ["mouseenter", "focus"]) term.addEventListener(event, () => showTip(term));
  for (const event of ["mouseleave", "blur"]) term.addEventListener(event, () => hideTip(term));
}
document.addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(document.activeElement); });
addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });

// --- where one is -----------------------------------------------------------------------------------------------------------

function openTarget() {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const folded = target && target.closest("details:not([open])");
  if (folded) {
    folded.open = true;
    target.scrollIntoView();
  }
}
addEventListener("hashchange", openTarget);
openTarget();

const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.getAttribute("href").slice(1), link]));
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    for (const link of links.values()) link.removeAttribute("aria-current");
    links.get(entry.target.id)?.setAttribute("aria-current", "true");
  }
}, { rootMargin: "-20% 0px -70% 0px" });
for (const section of document.querySelectorAll("main > section")) seen.observe(section);
