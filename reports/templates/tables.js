// --- tables are sorted ------------------------------------------------------------------------------------------------------

const LEAST_ROWS_TO_SORT = 2;
const FACTORS = {
  "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, ns: 1e-9, "µs": 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, "%": 0.01,
  B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40, PiB: 2 ** 50,
  "B/s": 1, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9, "TB/s": 1e12, "PB/s": 1e15,
};

// A figure as the report writes them ("1,234", "13.98k", "535 µs", "2 min 05 s", "1.5 GiB", "< 0.1 %") as a number; NaN if none.
function figure(text) {
  const found = [...text.replaceAll(",", "").matchAll(/(-?\d+(?:\.\d+)?)\s*([a-zA-Zµ%/]*)/g)];
  if (found.length === 0 || !/^[<>\s-]*\d/.test(text)) return NaN;
  const [first, second] = found.map(([, number, unit]) => [Number(number), FACTORS[unit]]);
  if (first[1] === undefined) return first[0];
  const isTime = /\b(min|h)\b/.test(text) && second !== undefined && second[1] !== undefined;
  return first[0] * first[1] + (isTime ? second[0] * second[1] : 0) - (text.trim().startsWith("<") ? 1e-9 : 0);
}

// `2x8x4` by its parts, words by the alphabet; what is missing goes last, whichever the direction.
function compare(one, other, isNumber, sign) {
  const missing = (text) => text === "" || text === "-";
  if (missing(one) || missing(other)) return missing(one) - missing(other);
  if (isNumber) {
    const difference = figure(one) - figure(other);
    if (!Number.isNaN(difference)) return sign * difference;
  }
  return sign * one.localeCompare(other, "en", { numeric: true });
}

function addSorting(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, place) => {
    const name = head.textContent.replace(/\s+/g, " ").trim();
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.textContent = "↕";
    button.setAttribute("aria-label", `Sort by ${name}`);
    button.addEventListener("click", () => {
      const isNumber = head.classList.contains("number");
      // What is large is what one looks for first.
      const first = isNumber ? "descending" : "ascending";
      const now = head.getAttribute("aria-sort");
      const next = now === null ? first : now === "ascending" ? "descending" : "ascending";
      for (const other of heads) {
        other.removeAttribute("aria-sort");
        other.querySelector(".sort").textContent = "↕";
      }
      head.setAttribute("aria-sort", next);
      button.textContent = next === "ascending" ? "↑" : "↓";
      const body = table.tBodies[0], text = (row) => row.cells[place].textContent.trim(), sign = next === "ascending" ? 1 : -1;
      body.append(...[...body.rows].sort((one, other) => compare(text(one), text(other), isNumber, sign)));
    });
    head.append(button);
  });
}

for (const table of document.querySelectorAll("table[data-table]")) {
  if (table.tBodies[0].rows.length >= LEAST_ROWS_TO_SORT) addSorting(table);
}
