// Builds and updates elements. Data becomes text or a safe attribute value, never markup.

const SVG = "http://www.w3.org/2000/svg";
const EVENTS = ["onclick", "onchange", "oninput", "onsubmit"];
const ATTRIBUTES = new Set(
  (
    "autocomplete class colspan for id lang maxlength method name placeholder role scope spellcheck tabindex title " +
    "type value"
  ).split(" "),
);
const SVG_ATTRIBUTES = new Set(
  "class cx cy d focusable height points r role rx text-anchor viewBox width x x1 x2 y y1 y2".split(" "),
);
const OPEN_ATTRIBUTES = /^(aria|data)-[a-z-]+$/;
const FLAGS = ["disabled", "checked", "required", "open", "selected", "hidden"];

/** An HTML element. `properties` may hold known attributes, flags, event listeners, `key` and `href`. */
export function el(tag, properties, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "key") node.$key = String(value);
    else if (name === "opaque") node.$opaque = value;
    else if (EVENTS.includes(name)) node[name] = value;
    else if (FLAGS.includes(name)) node.toggleAttribute(name, true);
    else if (name === "href" && /^#[/]/.test(value)) node.setAttribute(name, value);
    else if (ATTRIBUTES.has(name) || OPEN_ATTRIBUTES.test(name)) node.setAttribute(name, value);
    else throw new TypeError(`No attribute ${name} here`);
  }
  append(node, children);
  return node;
}

/** An SVG element. */
export function svg(tag, properties, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined) continue;
    if (!SVG_ATTRIBUTES.has(name) && !OPEN_ATTRIBUTES.test(name)) throw new TypeError(`No attribute ${name} here`);
    node.setAttribute(name, value);
  }
  append(node, children);
  return node;
}

function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false || child === "") continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Update the children of `host` to match `children`, reusing elements where possible. */
export function render(host, ...children) {
  const wanted = document.createElement("div");
  append(wanted, children);
  morphChildren(host, wanted);
}

function morphChildren(host, wanted) {
  const keyed = new Map();
  const kept = new Set([...wanted.childNodes].map((node) => node.$key));
  for (const node of [...host.childNodes]) {
    if (node.$key === undefined) continue;
    if (kept.has(node.$key)) keyed.set(node.$key, node);
    else node.remove(); // first, so that nothing has to be moved before it
  }
  let at = host.firstChild;
  for (const next of [...wanted.childNodes]) {
    let found = null;
    if (next.$key !== undefined) found = keyed.get(next.$key) ?? null;
    else if (at !== null && at.$key === undefined) found = at;
    if (found !== null && !isAlike(found, next)) found = null;
    if (found === null) {
      host.insertBefore(next, at);
      continue;
    }
    if (found !== at) {
      if (found.contains(document.activeElement)) moveBehind(found, at);
      else host.insertBefore(found, at);
    }
    at = found.nextSibling;
    morph(found, next);
  }
  while (at !== null) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

/** Move everything from `first` on behind `stays`, because a moved element loses focus and caret. */
function moveBehind(stays, first) {
  const behind = stays.nextSibling;
  while (first !== stays) {
    const node = first;
    first = first.nextSibling;
    stays.parentNode.insertBefore(node, behind);
  }
}

function isAlike(node, next) {
  return node.nodeType === next.nodeType && node.nodeName === next.nodeName && node.$key === next.$key;
}

function morph(node, next) {
  if (node.nodeType === Node.TEXT_NODE) {
    if (node.data !== next.data) node.data = next.data;
    return;
  }
  for (const { name } of [...node.attributes]) {
    // The reader decides what is expanded.
    if (!next.hasAttribute(name) && name !== "open") node.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) {
    if (node.getAttribute(name) !== value && name !== "open") node.setAttribute(name, value);
  }
  for (const name of EVENTS) if (node[name] !== next[name]) node[name] = next[name];
  if (node.nodeName === "INPUT" && node.type === "radio" && node.checked !== next.checked) node.checked = next.checked;
  if (!next.$opaque) morphChildren(node, next);
}
