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
      input.addEventListener("input", () => { byId("count-says").textContent = ""; this.show(); this.keep(); });
      for (const choice of this.choices) {
        choice.disabled = false;
        choice.addEventListener("click", () => this.move(Number(choice.dataset.position)));
      }
      this.box();
      this.resume();
      this.show();
    }
    /* The box for the number of clusters. */
    box() {
      const [box, go] = [byId("count"), byId("count-go")];
      box.disabled = go.disabled = false;
      box.addEventListener("keydown", (event) => { if (event.key === "Enter") this.ask(box.value); });
      go.addEventListener("click", () => this.ask(box.value));
    }
    ask(text) {
      const counts = this.data.positions.map(([, , , , , count]) => count);
      const wanted = Number(text.replace(/[,\s]/g, "") || NaN);
      const [most, least] = [Math.max(...counts), Math.min(...counts)].map((count) => count.toLocaleString("en-US"));
      if (!Number.isInteger(wanted) || wanted < 1) {
        byId("count-says").textContent = `Type a whole number; the slider goes from ${least} to ${most} clusters.`;
        return;
      }
      const far = counts.map((count) => Math.abs(count - wanted));
      const nearest = Math.min(...far);
      this.move(far[this.place] === nearest ? this.place : far.indexOf(nearest));
      const [, height, clusters] = this.data.positions[this.place];
      const exact = `${clusters} ${clusters === "1" ? "cluster" : "clusters"} at height ${height}`;
      byId("count-says").textContent = nearest === 0 ? `${exact}.` : `No position of the slider has ${wanted.toLocaleString("en-US")}; the nearest has ${exact}.`;
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
      const [exact, height, clusters, single, rows, count] = this.data.positions[this.place];
      this.input.setAttribute("aria-valuetext", `height ${height}, ${clusters} clusters`);
      byId("now-height").textContent = height;
      byId("now-clusters").textContent = clusters;
      byId("now-single").textContent = single;
      for (const span of document.querySelectorAll("#cut .exact")) span.textContent = exact;
      for (const choice of this.choices)
        choice.setAttribute("aria-pressed", String(Number(choice.dataset.position) === this.place));
      const shown = rows.map((row) => this.data.rows[row]);
      byId("largest").tBodies[0].replaceChildren(...shown.map(tableRow));
      const detail = {
        height: Number(exact),
        done: this.data.nodes - count,
        clusters: shown.map(([, , branch, whole]) => [branch, whole]),
        text: `${clusters} clusters at height ${height}`,
      };
      document.dispatchEvent(new CustomEvent("cut", { detail }));
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

  function tableRow([cells, examples, branch], place) {
    const row = document.createElement("tr");
    const [number, names] = ["number", "examples"].map((name) => {
      const cell = row.appendChild(document.createElement("td"));
      cell.className = name;
      return cell;
    });
    number.append(branch < 0 ? String(place + 1) : badge(place + 1, branch));
    for (const name of examples) names.appendChild(document.createElement("span")).textContent = name;
    for (const text of cells) row.appendChild(document.createElement("td")).textContent = text;
    return row;
  }

  function badge(number, branch) {
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("aria-label", `Show cluster ${number} in the tree`);
    button.addEventListener("click", () => document.dispatchEvent(new CustomEvent("branch", { detail: { branch } })));
    return window.daskRac ? window.daskRac.paint(button, number) : button;
  }

  copyButtons();
  const input = byId("slider");
  const slider = input ? new Slider(input) : null;
  draw().then((drawn) => slider?.attach(drawn));
  addEventListener("pagehide", () => remember({ focus: input !== null && document.activeElement === input }));
})();
