"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const walk = byId("walk");
  if (!walk) return;
  const MEMORY = `dask_rac tree ${location.pathname}`;
  const LEAVES = 30, HITS = 24, STEPS = 10, CRUMBS = 6, LISTED = 500;
  const SVG = "http://www.w3.org/2000/svg";
  const tree = JSON.parse(byId("tree-data").textContent);
  const similarity = tree.similarity ? "similarity" : "height";
  const forest = tree.trees > 1;

  /* Branches are in preorder: those inside a branch follow it directly, up to before `last`. */
  const count = tree.parent.length;
  const inside = Array.from({ length: count }, () => []);
  const last = Int32Array.from({ length: count }, (_, branch) => branch + 1);
  for (let branch = count - 1; branch > 0; branch--) {
    const outer = tree.parent[branch];
    inside[outer].unshift(branch);
    last[outer] = Math.max(last[outer], last[branch]);
  }
  /* If all nodes are listed, those of a branch are a range of the list, its own before those of branches inside. */
  const start = new Int32Array(count);
  const home = tree.home ?? new Int32Array(tree.texts.length);
  if (tree.whole) {
    const own = tree.size.slice();
    for (let branch = 1; branch < count; branch++) own[tree.parent[branch]] -= tree.size[branch];
    for (let branch = 0, place = 0; branch < count; branch++) {
      start[branch] = place;
      home.fill(branch, place, place + own[branch]);
      place += own[branch];
    }
  }

  const whole = (number) => number.toLocaleString("en-US");
  const counted = (number, noun) => `${whole(number)} ${noun}${number === 1 ? "" : "s"}`;
  /* A text that is as wide as there is room for, in pixels; letters differ in width, so it is measured. */
  const pen = document.createElement("canvas").getContext("2d");
  const widthOf = (text) => pen.measureText(text).width;
  function shortened(text, pixels) {
    if (widthOf(text) <= pixels) return text;
    const letters = [...text];
    let [low, high] = [1, letters.length];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (widthOf(`${letters.slice(0, middle).join("")}…`) <= pixels) low = middle;
      else high = middle - 1;
    }
    return `${letters.slice(0, low).join("")}…`;
  }
  const nodeText = (place) => (tree.named ? tree.texts[place] : `node ${tree.texts[place]}`);
  const examplesOf = (branch) => tree.examples[branch].map(nodeText);
  const isForest = (branch) => forest && branch === 0;
  function titleOf(branch) {
    if (isForest(branch)) return `all ${counted(tree.trees, "tree")}`;
    return tree.size[branch] === 1 ? nodeText(tree.examples[branch][0]) : counted(tree.size[branch], "node");
  }
  function pathTo(branch) {
    const path = [];
    for (let at = branch; at >= 0; at = tree.parent[at]) path.unshift(at);
    return path;
  }

  function element(tag, properties = {}, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  }
  function drawn(shape, className, colour) {
    const made = document.createElementNS(SVG, "path");
    made.setAttribute("d", shape);
    made.setAttribute("class", className);
    if (colour) made.style.stroke = made.style.fill = colour;
    if (colour && className === "line") made.style.fill = "none";
    return made;
  }
  /* The number and colour of a cluster; the third of a small palette looks like the ninth, hence the number. */
  function paint(badge, number) {
    const colour = tree.colours[(number - 1) % tree.colours.length];
    badge.classList.add("badge");
    badge.textContent = number;
    badge.style.background = badge.style.borderColor = colour;
    badge.style.color = colour === tree.colours[0] ? "#fff" : "#111";
    return badge;
  }

  const state = { at: 0, limit: LEAVES, sought: -1, cut: null, number: new Int16Array(count) };

  /* The branches that are drawn: the way to the node that was searched for, then from the highest split on. */
  function opened() {
    const shown = new Set();
    let ends = [state.at];
    if (isForest(state.at)) {
      shown.add(0);
      ends = inside[0].slice(0, Math.ceil(state.limit / 3));
    }
    const open = (next) => {
      shown.add(next);
      ends = ends.filter((one) => one !== next).concat(inside[next]);
    };
    const way = state.sought < 0 ? [] : pathTo(home[state.sought]);
    if (way.includes(state.at)) {
      const inner = way.slice(way.indexOf(state.at)).slice(0, state.limit - 1);
      if (isForest(state.at) && inner.length > 1 && !ends.includes(inner[1])) ends.push(inner[1]);
      inner.filter((one) => inside[one].length && !shown.has(one)).forEach(open);
    }
    while (ends.length < state.limit) {
      const next = ends.reduce((best, one) => (inside[one].length && tree.split[one] > (tree.split[best] ?? -1) ? one : best), -1);
      if (next < 0) break;
      open(next);
    }
    if (isForest(state.at)) {
      const trees = inside[0].filter((one) => !shown.has(one) && !ends.includes(one));
      ends.push(...trees.slice(0, Math.max(state.limit - ends.length, 0)));
    }
    return { shown, ends: ends.sort((one, other) => one - other) };
  }

  /* From a height to a share of the width: the root on the left, single nodes on the right. */
  function scaleOf(heights) {
    let [low, high] = [Math.min(...heights), Math.max(...heights)];
    const log = low > 0 && high / low > 1000;
    if (!log && !tree.similarity && low > 0 && low < 0.3 * high) low = 0;
    if (low === high) [low, high] = [low - (Math.abs(low) / 10 || 1), high + (Math.abs(high) / 10 || 1)];
    const along = log ? Math.log : (height) => height;
    const [from, to] = tree.similarity ? [along(low), along(high)] : [along(high), along(low)];
    const at = (height) => {
      const share = 4 + (92 * (along(height) - from)) / (to - from);
      return Number.isFinite(share) ? Math.min(Math.max(share, -1), 101) : 101;
    };
    return { at, low, high, log };
  }

  const splitHeight = (branch) => Number(tree.splits[branch]);
  const formedHeight = (branch) => Number(tree.formed[branch]);
  const colourOf = (branch) =>
    state.number[branch] ? tree.colours[(state.number[branch] - 1) % tree.colours.length] : null;

  function draw() {
    const { shown, ends } = opened();
    const heights = [...shown].filter((one) => tree.split[one] >= 0).map(splitHeight);
    heights.push(...[...ends, state.at].filter((one) => tree.top[one] >= 0).map(formedHeight));
    const scale = heights.length ? scaleOf(heights) : null;
    const row = new Map(ends.map((branch, place) => [branch, place + 0.5]));
    for (const branch of [...shown].sort((one, other) => other - one)) {
      if (isForest(branch)) continue;
      const rows = inside[branch].map((one) => row.get(one));
      row.set(branch, (rows[0] + rows[rows.length - 1]) / 2);
    }
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `0 0 100 ${ends.length}`);
    svg.setAttribute("preserveAspectRatio", "none");
    if (scale) drawLines(svg, scale, row, shown, ends);
    byId("lines").replaceChildren(svg);
    byId("leaves").replaceChildren(...ends.map(leaf));
    drawAxis(scale);
    const hidden = isForest(state.at) && inside[0].some((one) => !row.has(one));
    byId("more").hidden = !(hidden || ends.some((one) => inside[one].length));
  }

  function drawLines(svg, scale, row, shown, ends) {
    const cut = state.cut ? scale.at(state.cut.height) : 101;
    for (const branch of [...shown, ...ends]) {
      if (isForest(branch)) continue;
      const outer = branch === state.at || isForest(tree.parent[branch]) ? -1 : tree.parent[branch];
      const from = outer < 0 ? 0 : scale.at(splitHeight(outer));
      const open = shown.has(branch);
      const to = open ? scale.at(splitHeight(branch)) : tree.top[branch] >= 0 ? scale.at(formedHeight(branch)) : 100;
      const y = row.get(branch);
      /* Above the cut there are no clusters yet, hence no colours; what is below has the colour of its cluster. */
      const above = Math.min(Math.max(cut, from), to);
      const applied = (merge) => state.cut && merge >= 0 && merge < state.cut.done;
      const split = open ? applied(tree.split[branch]) : tree.top[branch] < 0 || applied(tree.top[branch]);
      const middle = split ? above : to;
      svg.append(drawn(`M${from} ${y}H${middle}`, "line"));
      const colour = split ? colourOf(branch) : null;
      if (middle < to) svg.append(drawn(`M${middle} ${y}H${to}`, "line", colour));
      if (open) {
        const rows = inside[branch].map((one) => row.get(one));
        svg.append(drawn(`M${to} ${rows[0]}V${rows[1]}`, "line", colour));
        if (branch !== state.at) svg.append(grip(drawn(`M${from} ${y}H${to}V${rows[0]}V${rows[1]}`, "grab"), branch));
      } else if (tree.size[branch] > 1) {
        const half = 0.12 + (0.28 * Math.log(tree.size[branch])) / Math.log(tree.size[state.at] + 1);
        svg.append(grip(drawn(`M${to} ${y}L100 ${y - half}V${y + half}Z`, "fan", colour), branch));
      }
    }
    if (cut > 0 && cut < 100) svg.append(drawn(`M${cut} 0V${ends.length}`, "cut"));
  }
  function grip(shape, branch) {
    const title = document.createElementNS(SVG, "title");
    const at = tree.splits[branch] || tree.formed[branch];
    title.textContent = `${titleOf(branch)}, ${similarity} ${at}: ${examplesOf(branch).join(", ")}`;
    shape.append(title);
    shape.dataset.branch = branch;
    shape.addEventListener("click", () => go(branch));
    return shape;
  }
  function drawAxis(scale) {
    if (!scale) return byId("axis").replaceChildren();
    const text = (height) => {
      const plain = String(Number(height.toPrecision(3)));
      return plain.length > 7 ? height.toExponential(1) : plain;
    };
    const [left, right] = tree.similarity ? [scale.low, scale.high] : [scale.high, scale.low];
    const ends = [left, right].map((height) => element("span", { textContent: text(height) }));
    byId("axis").replaceChildren(element("i", { textContent: similarity }), ...ends);
  }

  function leaf(branch) {
    const several = tree.size[branch] > 1;
    const width = byId("leaves").clientWidth;
    const size = several ? (width > 320 ? counted(tree.size[branch], "node") : whole(tree.size[branch])) : "";
    const { fontSize, fontFamily } = getComputedStyle(byId("leaves"));
    pen.font = `${0.9 * parseFloat(fontSize)}px ${fontFamily}`;
    const fits = width - 66 - widthOf(size);
    const names = examplesOf(branch);
    let text = names[0] ?? "";
    for (const name of names.slice(1)) if (widthOf(`${text}, ${name}`) <= fits) text = `${text}, ${name}`;
    const called = element("span", { className: "called", textContent: shortened(text, fits), title: names.join(", ") });
    const line = several ? element("button", { type: "button" }) : element("span");
    const cut = state.cut;
    const inCluster = state.number[branch] && (tree.top[branch] < 0 || tree.top[branch] < (cut?.done ?? 0));
    if (inCluster) line.append(paint(element("span"), state.number[branch]));
    line.append(called);
    if (several) {
      line.append(element("span", { className: "count", textContent: size }));
      line.addEventListener("click", () => go(branch, true));
      const cluster = inCluster ? `, cluster ${state.number[branch]}` : "";
      line.setAttribute("aria-label", `Look inside the branch of ${counted(tree.size[branch], "node")} around ${names.join(", ")}${cluster}`);
    }
    line.dataset.branch = branch;
    if (state.sought >= 0 && pathTo(home[state.sought]).includes(branch)) line.classList.add("sought");
    return element("li", {}, line);
  }

  function crumbs() {
    const path = pathTo(state.at);
    const cut = path.length > CRUMBS + 2;
    const shown = cut ? [path[0], -1, ...path.slice(-CRUMBS)] : path;
    byId("crumbs").replaceChildren(
      ...shown.map((branch) => {
        if (branch < 0) return element("li", { textContent: `… ${whole(path.length - CRUMBS - 1)} more …` });
        const text = branch === 0 && !forest ? `the root: ${titleOf(0)}` : titleOf(branch);
        if (branch === state.at) {
          const here = element("b", { textContent: text });
          here.setAttribute("aria-current", "location");
          return element("li", {}, here);
        }
        const button = element("button", { type: "button", textContent: text });
        button.dataset.branch = branch;
        button.addEventListener("click", () => go(branch, true));
        return element("li", {}, button);
      }),
    );
  }

  function describe() {
    const branch = state.at, line = byId("branch");
    const size = tree.size[branch];
    if (isForest(branch)) {
      const kept = inside[0].length, nodes = inside[0].reduce((sum, one) => sum + tree.size[one], 0);
      const rest = tree.trees - kept;
      line.textContent = `${counted(size, "node")} in ${counted(tree.trees, "tree")}.`;
      if (rest) line.append(` This page holds the ${whole(kept)} largest; the others have ${counted(size - nodes, "node")} together.`);
    } else {
      line.textContent = `${counted(size, "node")}, together from ${similarity} ${tree.formed[branch]} on. Most central: `;
      examplesOf(branch).forEach((name, place) => line.append(place ? ", " : "", element("b", { textContent: name })));
      line.append(". ");
      const [large, small] = inside[branch];
      if (large === undefined) line.append("This page holds no smaller branches of it.");
      else {
        const rest = size - tree.size[large] - tree.size[small];
        line.append(`It splits at ${tree.splits[branch]} into ${whole(tree.size[large])} and ${whole(tree.size[small])} nodes`);
        line.append(rest ? `; ${counted(rest, "other node")} joined one by one or in small groups after that.` : ".");
      }
    }
    const members = byId("members");
    members.hidden = !tree.whole || isForest(branch);
    members.open = false;
    members.querySelector("summary").textContent = `All ${counted(size, "node")} of this branch`;
    members.querySelector("p").replaceChildren();
  }
  byId("members").addEventListener("toggle", () => {
    const list = byId("members").querySelector("p");
    if (!byId("members").open) return;
    const first = start[state.at], size = tree.size[state.at];
    const shown = tree.texts.slice(first, first + Math.min(size, LISTED));
    list.replaceChildren(...shown.flatMap((text, place) => [place ? ", " : "", element("span", { textContent: text })]));
    if (size > LISTED) list.append(` and ${whole(size - LISTED)} more`);
  });

  function go(branch, focus = false) {
    state.at = branch;
    state.limit = LEAVES;
    show();
    if (focus) byId("branch").focus({ preventScroll: true });
    try {
      sessionStorage.setItem(MEMORY, JSON.stringify([tree.top[branch], tree.size[branch], tree.examples[branch]]));
    } catch {}
  }
  function show() {
    crumbs();
    describe();
    draw();
  }
  function resume() {
    try {
      const [top, size, examples] = JSON.parse(sessionStorage.getItem(MEMORY));
      const same = (branch) => tree.size[branch] === size && String(tree.examples[branch]) === String(examples);
      const found = tree.top.findIndex((one, branch) => one === top && same(branch));
      if (found > 0) state.at = found;
    } catch {}
  }

  /* Equal names come first, then those with the text as a word, then those that contain it. */
  const compare = new Intl.Collator("en", { numeric: true }).compare;
  function matches(text) {
    const wanted = text.toLowerCase();
    if (!tree.named) {
      const number = wanted.replace(/^node\s+/, "").replaceAll(",", "");
      return /^\d+$/.test(number) ? tree.texts.flatMap((one, place) => (one === number ? [place] : [])) : [];
    }
    const ranked = [[], [], []];
    tree.texts.forEach((one, place) => {
      const lower = one.toLowerCase();
      const at = lower.indexOf(wanted);
      if (at >= 0) ranked[lower === wanted ? 0 : isWord(lower, at, wanted) ? 1 : 2].push(place);
      else if (one.endsWith("…") && wanted.startsWith(lower.slice(0, -1))) ranked[0].push(place);
    });
    return ranked.flatMap((places) => places.sort((one, other) => compare(tree.texts[one], tree.texts[other])));
  }
  function isWord(text, at, word) {
    const inWord = (one, other) => /^[\p{L}\p{N}]{2}$/u.test(`${one}${other}`);
    const end = at + word.length;
    return !(at && inWord(text[at - 1], text[at])) && !(end < text.length && inWord(text[end - 1], text[end]));
  }
  function find() {
    const text = byId("find").value.trim();
    const hits = byId("hits"), says = byId("find-says");
    hits.hidden = true;
    hits.replaceChildren();
    says.textContent = "";
    if (!text) return seek(-1);
    const found = matches(text);
    if (!found.length) return missing(text);
    const shown = found.slice(0, HITS);
    const more = found.length > HITS ? `; the first ${HITS} are listed` : "";
    says.textContent = `${whole(found.length)} found${more}.`;
    if (found.length > 1) {
      hits.hidden = false;
      hits.replaceChildren(
        ...shown.map((place) => {
          const button = element("button", { type: "button", textContent: nodeText(place) });
          button.addEventListener("click", () => seek(place));
          return element("li", {}, button);
        }),
      );
    }
    return seek(found[0]);
  }
  function missing(text) {
    seek(-1);
    const kind = tree.named ? "name" : "number";
    byId("find-says").textContent = tree.whole ? `No node has this ${kind}.` : `No node on this page has this ${kind}.`;
    if (!tree.whole && (tree.named || /^\d+$/.test(text))) {
      const panel = byId("path");
      const held = `This page holds ${whole(tree.texts.length)} of ${counted(tree.nodes, "node")}: the most central ones of its branches. For any other node, the path to the root is shown by`;
      panel.replaceChildren(element("p", { textContent: held }), ...commands(text));
      panel.hidden = false;
    }
  }
  /* Texts are quoted as the language has it, so that a name is never code. */
  function commands(text) {
    return tree.paths.map(([before, language]) => {
      const shell = /^[\w.,:@%+=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
      const python = tree.named ? JSON.stringify(text) : text;
      const line = language === "shell" ? before + shell : `${before}${python})`;
      return element("div", { className: "line" }, element("code", { textContent: line }));
    });
  }

  function seek(place) {
    state.sought = place;
    const panel = byId("path");
    panel.hidden = place < 0;
    if (place < 0) return show();
    let branch = home[place];
    while (branch > 0 && (tree.size[branch] === 1 || tree.size[tree.parent[branch]] <= LEAVES)) branch = tree.parent[branch];
    go(branch);
    return pathPanel(place, false);
  }
  function pathPanel(place, all) {
    const panel = byId("path");
    const steps = pathTo(home[place]).reverse().filter((branch) => tree.size[branch] > 1);
    const cut = !all && steps.length > 2 * STEPS;
    const shown = cut ? [...steps.slice(0, STEPS), -1, ...steps.slice(-STEPS)] : steps;
    const list = element("ol", {}, ...shown.map((branch) => step(branch, place, steps.length - 2 * STEPS)));
    const complete = tree.whole && count === tree.nodes + tree.top.filter((top) => top >= 0).length + (forest ? 1 : 0);
    panel.replaceChildren(element("h3", { textContent: `${nodeText(place)}: from here to the root` }), list);
    if (!complete) {
      const text = "These are the branches that this page holds. All merges on the way are shown by";
      const shortened = tree.texts[place].endsWith("…");
      panel.append(element("p", { className: "quiet", textContent: text }), ...commands(shortened ? "NAME" : tree.texts[place]));
    }
    panel.hidden = false;
  }
  function step(branch, place, left) {
    if (branch < 0) {
      const button = element("button", { type: "button", textContent: `Show ${counted(left, "step")} more` });
      button.addEventListener("click", () => pathPanel(place, true));
      const item = element("li", {}, button);
      item.style.listStyle = "none";
      return item;
    }
    const button = element("button", { type: "button", textContent: titleOf(branch) });
    button.addEventListener("click", () => go(branch, true));
    const item = element("li", {}, button);
    if (!isForest(branch)) item.append(` at ${tree.formed[branch]} `);
    if (state.number[branch] && tree.top[branch] >= 0 && tree.top[branch] < (state.cut?.done ?? 0)) {
      const badge = paint(element("span"), state.number[branch]);
      badge.title = `cluster ${state.number[branch]} of the chosen cut`;
      item.append(badge);
    }
    return item;
  }

  /* The slider tells which cut is chosen: how many merges it has applied, and where its largest clusters are. */
  document.addEventListener("cut", ({ detail }) => {
    state.cut = detail;
    state.number.fill(0);
    detail.clusters.forEach(([branch, all], place) => {
      if (all) state.number.fill(place + 1, branch, last[branch]);
    });
    byId("colours").textContent = `Colours and numbers are those of the largest clusters of the chosen cut: ${detail.text}.`;
    draw();
    if (state.sought >= 0) pathPanel(state.sought, false);
  });
  document.addEventListener("branch", ({ detail }) => {
    go(detail.branch);
    byId("tree").scrollIntoView({ behavior: "auto", block: "start" });
    byId("branch").focus({ preventScroll: true });
  });
  window.daskRac = { paint };

  byId("find-go").addEventListener("click", find);
  byId("find").addEventListener("keydown", (event) => { if (event.key === "Enter") find(); });
  byId("more").addEventListener("click", () => { state.limit *= 2; draw(); });
  const splits = tree.split.filter((one) => one >= 0).length;
  const searched = tree.whole ? "All nodes can be searched for." : `Of ${counted(tree.nodes, "node")} this page holds ${whole(tree.texts.length)}, the most central ones of its branches; only these can be searched for.`;
  const merges = tree.nodes - tree.trees;
  byId("held").textContent = `${splits === merges ? "" : `Of ${counted(merges, "merge")} this page holds the ${whole(splits)} whose smaller part is largest. `}${searched}`;
  walk.hidden = false;
  resume();
  show();
  new ResizeObserver(() => draw()).observe(byId("drawing"));
})();
