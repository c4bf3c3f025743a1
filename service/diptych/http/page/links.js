// Two pictures side by side, and over them what the network looked at: lines from patch to patch.

import { el, percent, shape } from "./dom.js";

const LINES = 5;
const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/**
 * Both pictures in `root`, [{ name, source, role }, ...]. `show(answer)` draws an answer of /v1/explain with its matrix
 * over them: the strongest links, or those of the patch under the pointer or the keys. `end()` stops watching.
 */
export function pairStage(root, pictures) {
  const patches = { pointer: null, keys: null, last: [null, null] };
  const drawing = shape("svg", { class: "links", "aria-hidden": "true" });
  const spoken = el("p", { className: "patch-line", role: "status" });
  const boxes = pictures.map(pictureBox);
  let answer = null;

  const figures = pictures.map((picture, side) =>
    el("figure", {}, boxes[side],
      el("figcaption", {}, el("b", { textContent: picture.role }), ` ${picture.name}`)));
  root.replaceChildren(el("div", { className: "pair" }, ...figures, drawing), spoken);
  boxes.forEach(listen);
  const watcher = new ResizeObserver(draw);
  for (const box of boxes) watcher.observe(box);

  function show(found) {
    answer = found;
    const [rows, columns] = answer.grid;
    boxes.forEach((box, side) => {
      box.tabIndex = 0;
      box.setAttribute("role", "application");
      box.setAttribute("aria-roledescription", "picture in patches");
      box.setAttribute("aria-label",
        `${pictures[side].role}, ${rows} by ${columns} patches. Arrow keys move from patch to patch.`);
    });
    draw();
  }

  function listen(box, side) {
    const under = (event) => {
      if (!answer) return null;
      const frame = box.getBoundingClientRect();
      const place = (at, from, size, count) => Math.min(count - 1, Math.max(0, Math.floor(((at - from) / size) * count)));
      return place(event.clientY, frame.top, frame.height, answer.grid[0]) * answer.grid[1] +
        place(event.clientX, frame.left, frame.width, answer.grid[1]);
    };
    const point = (event) => {
      const patch = under(event);
      if (patch === null || (patches.pointer?.side === side && patches.pointer.patch === patch)) return;
      patches.last[side] = patch;
      patches.pointer = { side, patch };
      if (document.activeElement === box && event.type === "pointerdown") patches.keys = { side, patch };
      draw();
    };
    box.addEventListener("pointermove", point);
    box.addEventListener("pointerdown", (event) => {
      patches.pointer = null;
      point(event);
    });
    box.addEventListener("pointerleave", () => {
      patches.pointer = null;
      draw();
    });
    box.addEventListener("focus", () => {
      if (!answer) return;
      const strongest = answer.links[0]?.patches[side] ?? [0, 0];
      patches.keys = { side, patch: patches.last[side] ?? strongest[0] * answer.grid[1] + strongest[1] };
      draw();
    });
    box.addEventListener("blur", () => {
      patches.keys = null;
      draw();
    });
    box.addEventListener("keydown", (event) => {
      const move = MOVES[event.key];
      if (!move || !answer || !patches.keys) return;
      event.preventDefault();
      const [rows, columns] = answer.grid;
      const row = Math.min(rows - 1, Math.max(0, Math.floor(patches.keys.patch / columns) + move[0]));
      const column = Math.min(columns - 1, Math.max(0, (patches.keys.patch % columns) + move[1]));
      patches.pointer = null;
      patches.last[side] = row * columns + column;
      patches.keys = { side, patch: patches.last[side] };
      draw();
    });
  }

  function draw() {
    if (!answer) return;
    const [rows, columns] = answer.grid;
    const origin = drawing.getBoundingClientRect();
    const cells = boxes.map((box) => {
      const frame = box.getBoundingClientRect();
      const [width, height] = [frame.width / columns, frame.height / rows];
      return (patch) => ({
        x: frame.left - origin.left + (patch % columns) * width,
        y: frame.top - origin.top + Math.floor(patch / columns) * height,
        width,
        height,
      });
    });
    const at = patches.pointer ?? patches.keys;
    drawing.replaceChildren(...outlines(origin), ...(at ? ofPatch(at, cells) : ofAll(cells)));
  }

  /** Where each picture lies in the other, as the closer look laid it there. */
  function outlines(origin) {
    if (!answer.placement) return [];
    const { second_in_first: second, first_in_second: first } = answer.placement;
    return [second, first].flatMap((corners, side) => {
      if (corners.some(([x, y]) => Math.min(x, y) < -0.02 || Math.max(x, y) > 1.02)) return []; // it reaches beyond
      const frame = boxes[side].getBoundingClientRect();
      const points = corners.map(([x, y]) =>
        `${frame.left - origin.left + x * frame.width},${frame.top - origin.top + y * frame.height}`).join(" ");
      return [shape("polygon", { class: "placement halo", points }), shape("polygon", { class: "placement", points })];
    });
  }

  function ofAll(cells) {
    const [rows, columns] = answer.grid;
    const most = answer.links[0]?.share ?? 1;
    const hint = `${answer.placement ? "A frame is where one picture lies in the other, the lines are the" : "The"} ` +
      "strongest links. Point at a part of either picture to see what it looks at.";
    say(answer.links.length ? hint : "");
    const colour = ([row, column]) => {
      // By the place in the first picture, so that what stays together keeps its colours, and lines of one row differ.
      const hue = Math.round((330 * (column + row / rows)) / columns);
      return `hsl(${hue} 78% ${hue > 40 && hue < 200 ? 38 : 50}%)`;
    };
    return layered(answer.links.map(({ patches: [first, second], share }) =>
      line(
        cells[0](first[0] * columns + first[1]),
        cells[1](second[0] * columns + second[1]),
        share / most,
        { colour: colour(first), bend: 0.26 * ((first[1] + 0.5) / columns - 0.5) },
      )));
  }

  function ofPatch({ side, patch }, cells) {
    const shares = side === 0 ? answer.attention[patch] : answer.attention.map((row) => row[patch]);
    const most = Math.max(1e-12, ...shares);
    const strongest = shares.map((share, other) => ({ share, other })).sort((a, b) => b.share - a.share).slice(0, LINES);
    const heat = shares.map((share, other) =>
      shape("rect", { class: "heat", ...cells[1 - side](other), "fill-opacity": (0.7 * share) / most }));
    const own = shape("rect", { class: "own", ...cells[side](patch), rx: 3 });
    const lines = strongest.map(({ share, other }) => line(cells[side](patch), cells[1 - side](other), share / most));
    const place = (number) => `row ${Math.floor(number / answer.grid[1]) + 1}, column ${(number % answer.grid[1]) + 1}`;
    const told = strongest.slice(0, 3).map(({ share, other }) => `${place(other)} (${percent(share)})`);
    say(`${pictures[side].role}, ${place(patch)}: most with ${told.join("; ")}.`);
    return [...heat, ...layered(lines), own];
  }

  function say(text) {
    if (spoken.textContent !== text) spoken.textContent = text;
  }

  return { show, end: () => watcher.disconnect() };
}

/** A line from cell to cell with dots at its ends; `bend` parts lines that would lie upon each other. */
function line(from, to, strength, { colour = "#12a58a", bend = 0 } = {}) {
  const [x1, y1] = [from.x + from.width / 2, from.y + from.height / 2];
  const [x2, y2] = [to.x + to.width / 2, to.y + to.height / 2];
  const width = 1 + 1.8 * strength;
  const d = `M${x1} ${y1}Q${(x1 + x2) / 2 - bend * (y2 - y1)} ${(y1 + y2) / 2 + bend * (x2 - x1)} ${x2} ${y2}`;
  const dot = (cx, cy) => shape("circle", { class: "end", cx, cy, r: 1.5 + width, fill: colour });
  const paint = { stroke: colour, "stroke-width": width, "stroke-opacity": 0.6 + 0.4 * strength };
  const halo = shape("path", { class: "halo", d, "stroke-width": width + 1.6 });
  return {
    strokes: [halo, shape("path", { class: "link", d, ...paint })],
    dots: [dot(x1, y1), dot(x2, y2)],
  };
}

/** The strongest line uppermost, and all dots above all lines. */
function layered(lines) {
  lines.reverse();
  return [...lines.flatMap(({ strokes }) => strokes), ...lines.flatMap(({ dots }) => dots)];
}

function pictureBox(picture) {
  const image = el("img", { alt: `${picture.role}: ${picture.name}`, draggable: false });
  const box = el("div", { className: "patches" }, image);
  image.onload = () => box.style.setProperty("--aspect", image.naturalWidth / image.naturalHeight);
  image.onerror = () => image.replaceWith(el("span", { className: "gone", textContent: "your browser cannot show it" }));
  image.src = picture.source;
  return box;
}
