"use strict";
// Draws the class by student and each student's page from the data in this file. Everything foreign goes in as text, never as
// markup. The data's layout is that of grader/reporting/payload.py.

const OUTCOMES = { p: "passed", f: "failed", b: "blocked", n: "not assessed", e: "error" };
const $ = (id) => document.getElementById(id);

/** An element with attributes and children; a string child is text. */
function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null && value !== false) node.setAttribute(name, value);
  node.append(...children.flat().filter((child) => child !== null && child !== ""));
  return node;
}
const foreign = (text, attributes = {}) => el("bdi", attributes, text);

async function readData() {
  const node = $("data");
  if (!node.dataset.packed) return JSON.parse(node.textContent);
  const bytes = Uint8Array.from(atob(node.textContent), (one) => one.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream(node.dataset.packed));
  return JSON.parse(await new Response(stream).text());
}

// The class

let data, rows = [], order = [], sorted = { column: "name", down: false };

const byName = new Intl.Collator(undefined, { numeric: true }).compare;
const cellValue = (cell) => (cell.share !== undefined ? cell.share : { error: -1, missing: -2 }[cell.tone] ?? -3);

function valueOf(student, column) {
  if (column === "name") return student.name;
  if (column === "total") return student.share;
  if (column === "graded") return student.graded;
  return cellValue(student.cells[column]);
}

function drawMatrix() {
  const usual = data.exercises.map((_, column) => usualMost(column));
  const head = (key, label, attributes = {}, ...below) => {
    const button = el("button", { type: "button" }, label);
    button.addEventListener("click", () => sortBy(key));
    return el("th", { scope: "col", "data-key": key, ...attributes }, button, ...below);
  };
  const heads = data.exercises.map((one, column) =>
    head(column, one.short.replace(/^ex/, ""), { title: `${one.short} ${one.title}` }, el("small", {}, usual[column] ? `of ${usual[column]}` : "")));
  rows = data.students.map((student, index) => {
    const cells = student.cells.map((cell, column) => matrixCell(cell, usual[column]));
    const name = el("a", { href: `#student=${index}` }, foreign(student.name));
    const row = el("tr", {}, el("th", { scope: "row", class: student.risk.length ? "risk" : null, title: student.risk.join("; ") || null }, name), cells,
      el("td", {}, el("b", {}, student.total)), el("td", {}, String(student.graded)));
    return row;
  });
  const body = el("tbody");
  $("matrix").replaceChildren(el("table", {}, el("caption", {}, "Points by student and exercise"),
    el("thead", {}, el("tr", {}, head("name", "Student"), heads, head("total", "Total"), head("graded", "Graded", {}, el("small", {}, `of ${data.exercises.length}`)))), body));
  order = data.students.map((_, index) => index);
  sortBy("name");
  $("class-controls").hidden = false;
  $("find").addEventListener("input", filterRows);
  $("show").addEventListener("change", filterRows);
  filterRows();
}

/** The maximum that most have, which then stands once at the head of the column. */
function usualMost(column) {
  const counts = new Map();
  for (const student of data.students) {
    const most = student.cells[column].shown.split("/")[1];
    if (most) counts.set(most, (counts.get(most) || 0) + 1);
  }
  return [...counts].sort((one, other) => other[1] - one[1])[0]?.[0];
}

function matrixCell(cell, usual) {
  const [points, most] = cell.shown.split("/");
  const text = most === usual && most ? points : cell.shown;
  return el("td", { class: cell.tone, title: most ? `${points} of ${most}` : null }, text, cell.marks ? el("span", { class: "marks" }, cell.marks) : null);
}

function sortBy(column) {
  const numbers = column !== "name";
  const down = sorted.column === column && rows[0].isConnected ? !sorted.down : numbers;
  sorted = { column, down };
  const keyed = order.map((index) => [valueOf(data.students[index], column), index]);
  keyed.sort(([one, a], [other, b]) => (numbers ? one - other : byName(one, other)) * (down ? -1 : 1) || a - b);
  order = keyed.map(([, index]) => index);
  const body = $("matrix").querySelector("tbody");
  body.append(...order.map((index) => rows[index]));
  for (const head of $("matrix").querySelectorAll("th[data-key]")) {
    if (head.dataset.key === String(column)) head.setAttribute("aria-sort", down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
}

const SHOWN = {
  all: () => true,
  risk: (student) => student.risk.length > 0,
  error: (student) => student.cells.some((cell) => cell.tone === "error"),
  gap: (student) => student.cells.some((cell) => cell.share === undefined),
  marked: (student) => student.cells.some((cell) => cell.unofficial !== undefined),
};

function filterRows() {
  const words = $("find").value.toLocaleLowerCase().trim(), fits = SHOWN[$("show").value];
  let shown = 0;
  data.students.forEach((student, index) => {
    const visible = fits(student) && `${student.name} ${student.folder}`.toLocaleLowerCase().includes(words);
    rows[index].hidden = !visible;
    shown += visible;
  });
  $("shown").textContent = `${shown} of ${data.students.length} shown`;
}

// The tests

function prepareTests() {
  const lines = [...$("items").tBodies[0].rows];
  const filter = () => {
    const exercise = $("test-exercise").value, least = Number($("test-show").value);
    let shown = 0;
    for (const line of lines) {
      line.hidden = (exercise && line.dataset.exercise !== exercise) || Number(line.dataset.weight) < least;
      shown += !line.hidden;
    }
    $("tests-shown").textContent = `${shown} of ${lines.length} shown`;
  };
  $("test-exercise").addEventListener("change", filter);
  $("test-show").addEventListener("change", filter);
  $("test-controls").hidden = false;
  filter();
  [...$("items").tHead.rows[0].cells].forEach((head, column) => {
    const button = el("button", { type: "button" }, head.textContent);
    head.replaceChildren(button);
    button.addEventListener("click", () => sortTable($("items"), head, column));
  });
  const last = $("items").tHead.rows[0].lastElementChild;
  last.setAttribute("aria-sort", "ascending"); // so that the first sorting is downwards: what to look at first
  sortTable($("items"), last, last.cellIndex);
}

function sortTable(table, head, column) {
  const down = head.getAttribute("aria-sort") === "ascending";
  const value = (line) => line.cells[column].dataset.value ?? line.cells[column].textContent.replace("−", "-");
  const lines = [...table.tBodies[0].rows].map((line) => [value(line), line]);
  const isNumber = lines.every(([text]) => text === "-" || text.trim() === "" || !Number.isNaN(parseFloat(text)));
  const number = (text) => (Number.isNaN(parseFloat(text)) ? -Infinity : parseFloat(text));
  lines.sort(([one], [other]) => (isNumber ? number(one) - number(other) || 0 : byName(one, other)) * (down ? -1 : 1));
  table.tBodies[0].append(...lines.map(([, line]) => line));
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
}

// A student

const text = (number) => (number === undefined || number < 0 ? "" : data.texts[number]);

function drawStudent(index) {
  const student = data.students[index], place = order.indexOf(index), step = (by, label) => {
    const other = order[place + by];
    return other === undefined ? null : el("a", { class: "button", href: `#student=${other}` }, label);
  };
  const title = el("h2", { tabindex: "-1" }, foreign(student.name));
  const steps = $("overview") ? el("nav", { class: "steps", "aria-label": "Students" }, el("a", { class: "button", href: "#class" }, "Back to the class"), step(-1, "Previous"), step(1, "Next")) : null;
  $("student").replaceChildren(...[steps, title,
    el("p", {}, "Total ", el("b", {}, student.total), ` over ${student.graded} of ${data.exercises.length} exercises`, student.folder ? el("span", { class: "quiet" }, " · folder ", foreign(student.folder)) : ""),
    student.risk.length ? el("p", {}, el("b", {}, "May need help: "), foreign(student.risk.join("; "))) : null,
    ...student.cells.map((cell, number) => drawResult(cell, data.exercises[number]))].filter(Boolean));
  return title;
}

function drawResult(cell, exercise) {
  const parts = [el("h3", {}, foreign(`${exercise.short} ${exercise.title || exercise.file}`), el("span", { class: cell.tone }, cell.shown))];
  if (cell.status) parts.push(el("p", {}, el("b", {}, cell.status), ": ", foreign(text(cell.why))));
  if (cell.reason !== undefined) parts.push(el("p", {}, foreign(text(cell.reason))));
  for (const line of cell.adjusted || []) parts.push(el("p", {}, foreign(line)));
  const facts = [cell.unofficial !== undefined ? `not official: ${text(cell.unofficial)}` : "", cell.reference ? "on reference prerequisites" : "",
    cell.seed ? `seed ${cell.seed}` : "", cell.started || ""].filter(Boolean);
  if (facts.length) parts.push(el("p", { class: "quiet" }, foreign(facts.join(" · "))));
  if (cell.runs) {
    parts.push(el("details", {}, el("summary", {}, `${cell.runs.length} attempts`),
      el("ol", {}, cell.runs.map(([when, points]) => el("li", {}, `${when} ${points}`)))));
  }
  if (cell.outcomes && /[^.]/.test(cell.outcomes)) parts.push(drawTests(cell, exercise));
  if (cell.output !== undefined) parts.push(el("details", {}, el("summary", {}, "What the code printed"), el("pre", { dir: "auto" }, text(cell.output))));
  return el("section", {}, parts);
}

function drawTests(cell, exercise) {
  let said = 0;
  const lines = [];
  exercise.tests.forEach(([label, category, most, visible], number) => {
    const outcome = OUTCOMES[cell.outcomes[number]];
    if (!outcome) return;
    const feedback = outcome === "passed" ? undefined : data.feedback[cell.said ? cell.said[said] : -1];
    if (outcome !== "passed") said += 1;
    const counts = !cell.status && most > 0 && ["passed", "failed", "blocked"].includes(outcome);
    const points = counts ? `${outcome === "passed" ? short(most) : 0}/${short(most)}` : "-";
    lines.push(el("tr", {}, el("th", { scope: "row" }, foreign(label), visible ? el("span", { class: "quiet" }, " public example") : null), el("td", {}, category),
      el("td", { class: "number" }, points), el("td", { class: outcome.replace(" ", "-") }, outcome), el("td", {}, feedback ? drawFeedback(feedback) : "")));
  });
  const heads = ["Test", "Category", "Points", "Outcome", "What was seen"].map((name) => el("th", { scope: "col" }, name));
  return el("table", { class: "tests" }, el("colgroup", {}, [1, 2, 3, 4, 5].map(() => el("col"))), el("thead", {}, el("tr", {}, heads)), el("tbody", {}, lines));
}

const short = (points) => String(Math.round(points * 100) / 100);

function drawFeedback([message, diagnosis, hint, picture, detail]) {
  const parts = [];
  if (message >= 0) parts.push(foreign(text(message), { class: "message" }));
  if (diagnosis >= 0) parts.push(el("p", { class: "diagnosis" }, "looks like ", el("b", {}, foreign(text(diagnosis).replaceAll("_", " "))), hint >= 0 ? ": " : "", hint >= 0 ? foreign(text(hint)) : ""));
  if (picture >= 0) parts.push(el("pre", { dir: "ltr" }, text(picture)));
  if (detail >= 0) parts.push(el("details", {}, el("summary", {}, "Detail"), el("pre", { dir: "ltr" }, text(detail))));
  return parts;
}

// Which of both is shown: `#student=12`, or the class at any other place

function route() {
  const wanted = /^#student=(\d+)$/.exec(location.hash), index = wanted ? Number(wanted[1]) : -1;
  const isStudent = index >= 0 && index < data.students.length;
  const wasStudent = !$("student").hidden;
  $("overview").hidden = isStudent;
  $("student").hidden = !isStudent;
  if (isStudent) {
    drawStudent(index).focus({ preventScroll: true });
    scrollTo(0, 0);
  } else if (wasStudent) {
    (document.querySelector(`#matrix a[href="${CSS.escape(lastHash)}"]`) || document.querySelector("#matrix a"))?.focus({ preventScroll: true });
    document.getElementById(location.hash.slice(1))?.scrollIntoView();
  }
  lastHash = location.hash;
}
let lastHash = "";

async function start() {
  try {
    data = await readData();
  } catch (error) {
    $("trouble").textContent = "This browser cannot unpack the results by student: it needs Chrome or Edge 80, Firefox 113, Safari 16.4 or newer.";
    $("trouble").hidden = false;
    return;
  }
  order = data.students.map((_, index) => index);
  if (!$("overview")) {
    drawStudent(0);
    $("student").hidden = false;
    return;
  }
  drawMatrix();
  prepareTests();
  addEventListener("hashchange", route);
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !$("student").hidden) location.hash = "#class";
  });
  for (const link of document.querySelectorAll("a[data-show]")) {
    link.addEventListener("click", () => { $("show").value = link.dataset.show; filterRows(); });
  }
  document.documentElement.dataset.ready = "";
  route();
}

start();
