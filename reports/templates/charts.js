// --- pictures ---------------------------------------------------------------------------------------------------------------

async function drawAll() {
  const held = document.getElementById("charts");
  if (held === null) {
    document.documentElement.dataset.charts = "none";
    return;
  }
  const { config, plots } = JSON.parse(held.textContent);
  const script = document.createElement("script");
  script.textContent = document.getElementById("library").textContent;
  document.head.append(script);
  for (const place of document.querySelectorAll("[data-plot]")) {
    // One at a time, so that the page stays quick to touch.
    await new Promise((resume) => setTimeout(resume));
    try {
      // `ast`: expressions are interpreted, so that the page needs no right to evaluate text as code.
      await vegaEmbed(place, { ...plots[place.dataset.plot], config }, {
        mode: "vega-lite", renderer: "svg", actions: false, ast: true, tooltip: { theme: matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light" },
      });
      // The place itself has a name, and a table beside it.
      place.querySelector("svg").setAttribute("aria-hidden", "true");
      place.dataset.drawn = "yes";
      place.style.minHeight = "";
    } catch (error) {
      place.dataset.drawn = "no";
      place.textContent = "This picture could not be drawn here; its table has the same numbers.";
      console.error(error);
    }
  }
  document.documentElement.dataset.charts = "drawn";
}

// After the first paint.
requestAnimationFrame(() => setTimeout(drawAll));
