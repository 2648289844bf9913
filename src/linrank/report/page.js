"use strict";
// Without this script the page shows everything. The script adds controls: tables that are sorted
// and filtered, buttons that copy commands, and a button for the colour scheme.

function element(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

// The value that a cell is sorted by: a number, a text, or null if the cell is empty. A text among
// numbers, such as "failed", counts as empty.
function valueOf(cell, numeric) {
  if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
  return numeric || cell.dataset.empty !== undefined ? null : cell.textContent;
}

const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

// Numbers stand before texts, whatever the direction is.
function compare(a, b, sign) {
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  return sign * (typeof a === "number" ? a - b || 0 : collator.compare(a, b));
}

function sortRows(table, column, direction) {
  const body = table.tBodies[0];
  const numeric = table.tHead.rows[0].cells[column].classList.contains("number");
  const sign = direction === "ascending" ? 1 : -1;
  const rows = Array.from(body.rows, (row) => [valueOf(row.cells[column], numeric), row]);
  const empty = rows.filter(([value]) => value === null);
  const sorted = rows.filter(([value]) => value !== null).sort((a, b) => compare(a[0], b[0], sign));
  body.append(...[...sorted, ...empty].map(([, row]) => row));
}

// The first click puts the largest number, or the first text, on top.
function nextDirection(head) {
  const first = head.classList.contains("number") ? "descending" : "ascending";
  const other = first === "ascending" ? "descending" : "ascending";
  return head.getAttribute("aria-sort") === first ? other : first;
}

function makeSortable(table) {
  if (table.tBodies[0].rows.length < 2) return;
  const heads = Array.from(table.tHead.rows[0].cells);
  heads.forEach((head, column) => {
    const button = element("button", { type: "button" }, ...head.childNodes);
    button.addEventListener("click", () => {
      const direction = nextDirection(head);
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", direction);
      sortRows(table, column, direction);
    });
    head.append(button);
  });
}

function makeFilter(block) {
  const rows = Array.from(block.querySelector("tbody").rows);
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const name = `${block.id}-filter`;
  const field = element("input", { type: "search", id: name, autocomplete: "off" });
  const status = element("output", { htmlFor: name });
  const label = element("label", { htmlFor: name }, "Filter rows");
  label.append(element("span", { className: "hidden" }, ` of ${block.querySelector("h3").textContent}`));
  const update = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, k) => {
      row.hidden = !words.every((word) => texts[k].includes(word));
      shown += row.hidden ? 0 : 1;
    });
    status.textContent = words.length ? `${shown} of ${rows.length} rows` : `${rows.length} rows`;
  };
  field.addEventListener("input", update);
  update();
  block.querySelector("h3").after(element("div", { className: "tools" }, label, field, status));
}

async function copyText(node) {
  try {
    await navigator.clipboard.writeText(node.textContent);
  } catch {
    // Pages that are not loaded from a secure place may copy a selection only.
    getSelection().selectAllChildren(node);
    document.execCommand("copy");
    getSelection().removeAllRanges();
  }
}

function makeCopyButton(figure) {
  const label = figure.querySelector("figcaption").textContent;
  const button = element("button", { type: "button", className: "button" }, "Copy");
  button.setAttribute("aria-label", `Copy: ${label}`);
  const status = element("span", { className: "hidden" });
  status.setAttribute("role", "status");
  button.addEventListener("click", async () => {
    await copyText(figure.querySelector("code"));
    button.textContent = status.textContent = "Copied";
    setTimeout(() => {
      button.textContent = "Copy";
      status.textContent = "";
    }, 2000);
  });
  figure.append(button, status);
}

function makeSchemeButton() {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.scheme ?? (system.matches ? "dark" : "light")) === "dark";
  const button = element("button", { type: "button", className: "button" });
  const update = () => {
    button.textContent = isDark() ? "Light colours" : "Dark colours";
  };
  button.addEventListener("click", () => {
    root.dataset.scheme = isDark() ? "light" : "dark";
    update();
  });
  system.addEventListener("change", update);
  update();
  document.querySelector("header").prepend(button);
}

// Fields for the values of a row, and the score of the row. Numbers that are pasted, with blanks,
// commas or tabs between them, go to this field and the next ones.
function makeCalculator(key, fields, score) {
  const place = document.getElementById(`calculator-${key}`);
  const inputs = fields.map(([name, kind], k) =>
    element("input", { id: `${place.id}-${k}`, type: "text", autocomplete: "off",
                       inputMode: kind === "number" ? "decimal" : "text" }));
  const output = element("output", {});
  const valueOfField = (input, kind) => {
    const text = input.value.trim();
    return text === "" ? null : kind === "number" ? Number(text) : text;
  };
  const update = () => {
    const values = inputs.map((input, k) => valueOfField(input, fields[k][1]));
    inputs.forEach((input, k) => input.setAttribute("aria-invalid", Number.isNaN(values[k])));
    const found = score(Object.fromEntries(fields.map(([name], k) => [name, values[k]])));
    output.textContent = Number.isNaN(found) ? "a value is missing" : String(found);
  };
  inputs.forEach((input, k) => {
    input.addEventListener("input", update);
    input.addEventListener("paste", (event) => {
      const words = event.clipboardData.getData("text").trim().split(/[\s,;]+/);
      if (words.length < 2) return;
      event.preventDefault();
      words.slice(0, inputs.length - k).forEach((word, i) => { inputs[k + i].value = word; });
      update();
    });
  });
  const rows = inputs.map((input, k) => element("div", {},
    element("label", { htmlFor: input.id }, fields[k][0]), input));
  place.replaceChildren(...rows, element("p", {}, "Score: ", output));
  update();
}

document.querySelectorAll("table").forEach(makeSortable);
document.querySelectorAll("[data-filter]").forEach(makeFilter);
document.querySelectorAll(".code").forEach(makeCopyButton);
makeSchemeButton();
