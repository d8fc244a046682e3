/* Draws the charts of a page. Each stands as JSON in its own element, and Vega comes from this site (book/_ext/living_paper.py): nothing is fetched. */
(() => {
  const PANEL = 200; // least width at which panels stand side by side

  /* Let the panels share the width at hand. */
  function fit(spec, room) {
    const panels = spec.concat ?? [spec];
    const columns = Math.max(1, Math.min(panels.length, Math.floor(room / PANEL)));
    const width = Math.floor(room / columns) - 78; // names and numbers of the axes
    for (const panel of panels) Object.assign(panel, { width, height: Math.round(Math.min(260, Math.max(180, 0.75 * width))) });
    if (spec.concat) spec.columns = columns;
    spec.config.legend.columns = room < 420 ? 2 : 3;
    return spec;
  }

  /* What the controls give, in words: the signal `reading`, or the field of that name in some of the data. */
  function follow(view, spec, say) {
    if (spec.params.some((parameter) => parameter.name === "reading")) {
      view.addSignalListener("reading", (_, words) => say(words));
      say(view.signal("reading"));
      return;
    }
    const names = Object.keys(view.getState({ signals: () => false, data: () => true }).data);
    const source = names.find((name) => view.data(name)[0]?.reading);
    view.addDataListener(source, (_, rows) => say(rows[0].reading));
    say(view.data(source)[0].reading);
  }

  async function draw(chart, source, state) {
    const spec = fit(JSON.parse(source), chart.clientWidth);
    for (const parameter of spec.params ?? []) if (parameter.name in state) parameter.value = state[parameter.name];
    const { view } = await vegaEmbed(chart.firstElementChild, spec, { mode: "vega-lite", renderer: "svg", actions: false });
    chart.view = view;
    /* A control that belongs to one choice of another (usermeta.shown: { name: { other: value } }) is there for that choice alone. */
    for (const [name, condition] of Object.entries(spec.usermeta?.shown ?? {})) {
      const control = chart.querySelector(`.vega-bind [name="${name}"]`).closest(".vega-bind");
      for (const [other, value] of Object.entries(condition)) {
        const toggle = () => (control.hidden = view.signal(other) !== value);
        view.addSignalListener(other, toggle);
        toggle();
      }
    }
    const reading = chart.querySelector(".reading");
    if (reading) follow(view, spec, (words) => (reading.textContent = words));
  }

  /* Where the width changes, the chart is drawn afresh, and its sliders stay where they are. */
  function place(chart) {
    const source = chart.querySelector("script").textContent;
    const names = (JSON.parse(source).params ?? []).filter((parameter) => parameter.bind).map((parameter) => parameter.name);
    chart.replaceChildren(document.createElement("div"));
    if (names.length) chart.append(Object.assign(document.createElement("p"), { className: "reading", role: "status" }));
    let width = 0;
    let drawing = Promise.resolve();
    new ResizeObserver(() => {
      if (Math.abs(chart.clientWidth - width) < 8) return;
      width = chart.clientWidth;
      drawing = drawing.then(() => {
        const state = Object.fromEntries(names.map((name) => [name, chart.view?.signal(name)]).filter(([, value]) => value !== undefined));
        chart.view?.finalize();
        return draw(chart, source, state);
      });
    }).observe(chart);
  }

  document.addEventListener("DOMContentLoaded", () => document.querySelectorAll("div.chart").forEach(place));
})();
