// Small tools for building the page and for saying numbers.

export const $ = (id) => document.getElementById(id);

export function el(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

export function shape(tag, attributes) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

export const plural = (count, noun, ending = "s") =>
  `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : ending}`;
export const milliseconds = (seconds) =>
  (seconds < 0.0095 ? (seconds * 1000).toFixed(1) : Math.round(seconds * 1000)) + " ms";
export const percent = (share) => `${(share * 100).toFixed(share < 0.0995 ? 1 : 0)} %`;

export function bytes(count) {
  if (count < 1e3) return `${count} bytes`;
  const [size, unit] = count < 1e6 ? [count / 1e3, "kB"] : count < 1e9 ? [count / 1e6, "MB"] : [count / 1e9, "GB"];
  return `${size.toFixed(size < 10 ? 1 : 0)} ${unit}`;
}

// Thresholds crowd at 1, where three digits would all read 1.000.
export function probability(value) {
  if (value < 0.99) return value.toFixed(3);
  return value > 0.999995 ? "> 0.99999" : value.toFixed(5);
}

/** Log-odds, in which probabilities near 1 have room. */
export const odds = (share) => Math.log(share / (1 - Math.min(share, 1 - 1e-9)));

export const nameOf = (item) => item.path?.split(/[\\/]/).pop() || item.metadata?.filename || item.id.slice(0, 12);

/** An element for a file's name, of which a narrow place leaves out the middle: files of a series differ at the end. */
export function nameElement(kind, properties, name) {
  const end = name.length > 16 ? name.length - 12 : 0; // a first part of a letter would leave a gap behind it
  return el(kind, { ...properties, className: "name" },
    ...(end ? [el("span", { className: "start", textContent: name.slice(0, end) })] : []),
    el("span", { textContent: name.slice(end) }));
}

/** A picture, small; where it cannot be had, because a stored file is gone, say, a word in its place. */
export function thumbnail(source, alt = "", word = "no file") {
  const image = el("img", { alt, loading: "lazy", decoding: "async" });
  image.onerror = () => image.replaceWith(el("span", { className: "gone", textContent: word }));
  image.src = source;
  return image;
}

export function fact(term, value, className = "") {
  return el("div", { className }, el("dt", { textContent: term }), el("dd", { textContent: value }));
}

/** Say what went wrong in an element with role="alert", with a button where trying again may help. */
export function showFault(node, error, retry = null) {
  node.replaceChildren(el("span", { textContent: error.message }));
  if (error.requestId) node.append(el("small", { textContent: `Request ${error.requestId}` }));
  if (retry && error.again) {
    const again = () => {
      node.hidden = true;
      retry();
    };
    node.append(el("button", { type: "button", className: "quiet", textContent: "Try again", onclick: again }));
  }
  node.hidden = false;
}

/** How far pairs are scored, pictures described, or pairs looked at closer: on the bar, and returned in words. */
export function showProgress(bar, { stage, scored, total, keypoints, closer_looks: looks }) {
  const [done, of, noun, text] = {
    pairs: [scored, total, "pair", "compared"],
    keypoints: [keypoints.described, keypoints.total, "picture", "described by keypoints"],
    closer_looks: [looks.taken, looks.total, "pair", "looked at closely"],
  }[stage];
  Object.assign(bar, { max: Math.max(1, of), value: done });
  return `${done.toLocaleString("en")} of ${plural(of, noun)} ${text}`;
}

/** Ask before something goes for good, and do it only after a clear yes. */
export function confirmed(title, text, use) {
  const dialog = $("confirm");
  $("confirm-title").textContent = title;
  $("confirm-text").textContent = text;
  $("confirm-no").onclick = () => dialog.close();
  $("confirm-yes").onclick = () => {
    dialog.close();
    use();
  };
  dialog.showModal();
}
