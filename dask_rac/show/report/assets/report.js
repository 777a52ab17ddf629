"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const parsed = (id) => JSON.parse(byId(id).textContent);
  const MEMORY = `dask_rac ${location.pathname}`;

  /* Browsers may deny storage, for example to local files: the page works without it. */
  function remember(values) {
    try {
      sessionStorage.setItem(MEMORY, JSON.stringify({ ...recall(), ...values }));
    } catch {}
  }
  function recall() {
    try {
      return JSON.parse(sessionStorage.getItem(MEMORY)) ?? {};
    } catch {
      return {};
    }
  }

  async function draw() {
    const drawn = {};
    for (const canvas of document.querySelectorAll(".canvas")) {
      const [view] = await Bokeh.embed.embed_item(parsed(canvas.dataset.figure), canvas.id);
      drawn[canvas.id.slice("canvas-".length)] = view.model;
    }
    return drawn;
  }

  function copyButtons() {
    for (const button of document.querySelectorAll(".copy")) {
      button.disabled = false;
      button.addEventListener("click", () => copy(button));
    }
  }
  async function copy(button) {
    const code = button.previousElementSibling;
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    } catch {
      getSelection().selectAllChildren(code);
    }
  }

  class Slider {
    constructor(input) {
      this.input = input;
      this.data = parsed("slider-data");
      this.choices = [...document.querySelectorAll(".choice")];
      input.disabled = false;
      input.addEventListener("input", () => { this.show(); this.keep(); });
      for (const choice of this.choices) {
        choice.disabled = false;
        choice.addEventListener("click", () => this.move(Number(choice.dataset.position)));
      }
      this.resume();
      this.show();
    }
    /* Positions change as the run progresses, so the height is stored instead. */
    resume() {
      const { height, focus } = recall();
      const heights = this.data.positions.map(([exact]) => Number(exact));
      if (height !== undefined) {
        const far = heights.map((exact) => Math.abs(exact - height));
        this.input.value = far.indexOf(Math.min(...far));
      }
      if (focus) this.input.focus({ preventScroll: true });
    }
    keep() {
      remember({ height: Number(this.data.positions[this.place][0]) });
    }
    get place() {
      return Number(this.input.value);
    }
    move(place) {
      this.input.value = place;
      this.show();
      this.keep();
    }
    show() {
      const [exact, height, clusters, single, rows] = this.data.positions[this.place];
      this.input.setAttribute("aria-valuetext", `height ${height}, ${clusters} clusters`);
      byId("now-height").textContent = height;
      byId("now-clusters").textContent = clusters;
      byId("now-single").textContent = single;
      for (const span of document.querySelectorAll("#cut .exact")) span.textContent = exact;
      for (const choice of this.choices)
        choice.setAttribute("aria-pressed", String(Number(choice.dataset.position) === this.place));
      byId("largest").tBodies[0].replaceChildren(...rows.map((row) => tableRow(this.data.rows[row])));
      this.follow();
    }
    /* Attach the figures that follow the slider, once they are drawn. */
    attach({ heights, sizes }) {
      if (heights) {
        const Span = Bokeh.Models.get("Span");
        this.span = new Span({ name: "slider", dimension: "height", line_color: "#1d2733", line_width: 1.5, level: "underlay" });
        heights.add_layout(this.span);
      }
      this.source = sizes?.select_one("sizes");
      this.follow();
    }
    follow() {
      if (this.span) this.span.location = Number(this.data.positions[this.place][0]);
      if (this.source) {
        const columns = this.data.sizes[this.place];
        this.source.data = { ...columns, top: columns.top.map((top) => top ?? NaN) };
      }
    }
  }

  function tableRow(cells) {
    const row = document.createElement("tr");
    for (const text of cells) row.appendChild(document.createElement("td")).textContent = text;
    return row;
  }

  copyButtons();
  const input = byId("slider");
  const slider = input ? new Slider(input) : null;
  draw().then((drawn) => slider?.attach(drawn));
  addEventListener("pagehide", () => remember({ focus: input !== null && document.activeElement === input }));
})();
