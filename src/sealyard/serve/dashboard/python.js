// Python code with line numbers and syntax colours, built from text nodes only.

import { el } from "./dom.js";

const KEYWORDS = new Set(
  (
    "False None True and as assert async await break class continue def del elif else except finally for from global " +
    "if import in is lambda match nonlocal not or pass raise return try while with yield"
  ).split(" "),
);
const TRIPLE = String.raw`"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)`;
const SINGLE = String.raw`"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?`;
const PIECES = new RegExp(
  [
    String.raw`(#[^\n]*)`,
    String.raw`((?:\b[rbfuRBFU]{1,2})?(?:${TRIPLE}|${SINGLE}))`,
    String.raw`(\b\d[\w.]*)`,
    String.raw`([^\W\d]\w*)`,
    String.raw`\n|[^\w\n#"']+|.`,
  ].join("|"),
  "gu",
);
const LINES_SHOWN = 2_000;

/** The code as a list of lines, with line `failed` marked. */
export function code(text, failed = null) {
  const lines = [[]];
  for (const match of text.matchAll(PIECES)) {
    const [piece, comment, string, number, name] = match;
    const kind = comment
      ? "comment"
      : string
        ? "string"
        : number
          ? "number"
          : name && KEYWORDS.has(name)
            ? "word"
            : null;
    piece.split("\n").forEach((part, index) => {
      if (index > 0) lines.push([]);
      if (part !== "") lines[lines.length - 1].push(kind === null ? part : el("span", { class: kind }, part));
    });
    if (lines.length > LINES_SHOWN) break;
  }
  const shown = lines.slice(0, LINES_SHOWN);
  return el(
    "ol",
    { class: "source", tabindex: "0", "aria-label": "Code" },
    shown.map((line, index) => el("li", { class: index + 1 === failed ? "is-failed" : null }, el("code", {}, line))),
  );
}
