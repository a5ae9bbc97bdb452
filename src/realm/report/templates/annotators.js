// ---------------------------------------------------------------- the table of annotators

var table = document.getElementById("annotators");
if (!table) return;
var data = JSON.parse(document.getElementById("annotators-data").textContent);
var body = table.tBodies[0];
var search = document.getElementById("annotator-search");
var ofTask = document.getElementById("annotator-task");
var order = document.getElementById("annotator-sort");
var chips = Array.prototype.slice.call(document.querySelectorAll("[data-verdict]"));
var count = document.getElementById("annotator-count");
var more = document.getElementById("annotator-more");
var all = document.getElementById("annotator-all");
var paper = document.getElementById("annotator-paper");
var heads = Array.prototype.slice.call(table.querySelectorAll("thead th"));
var names = data.names.map(plain);
var first = 50, printed = 500, shown = first;
var sorted = "accuracy", down = true;
var bars = document.getElementById("annotator-bars").children;
var NS = bars[0].namespaceURI;
var rows = data.accuracy.map(function (_, index) { return index; });
var open = {};
var words = ["trend", "habit", "notes"].filter(function (column) { return data[column]; });
var remarks = data.habit || data.notes;

function value(row, column) {
  if (column === "annotator") return names[data.who[row]];
  if (column === "task") return data.tasks[data.task[row]];
  return data[column][row];
}

function matching() {
  var wanted = plain(search.value.trim());
  var task = ofTask && ofTask.value !== "" ? Number(ofTask.value) : null;
  var verdicts = chips.filter(function (chip) { return chip.getAttribute("aria-pressed") === "true"; })
    .map(function (chip) { return Number(chip.dataset.verdict); });
  return rows.filter(function (row) {
    return (!wanted || names[data.who[row]].indexOf(wanted) >= 0) &&
      (task === null || data.task[row] === task) &&
      (!verdicts.length || verdicts.indexOf(data.verdict[row]) >= 0);
  }).sort(function (a, b) {
    var x = value(a, sorted), y = value(b, sorted);
    var difference = typeof x === "string" ? x.localeCompare(y) : (x === null ? -1 : x) - (y === null ? -1 : y);
    return (down ? -difference : difference) || a - b;
  });
}

// ---------------------------------------------------------------- elements

function element(parent, tag, text, kind) {
  var made = document.createElement(tag);
  if (kind) made.className = kind;
  if (text !== undefined && text !== null) made.textContent = text;
  if (parent) parent.appendChild(made);
  return made;
}

function cell(line, text, kind, label) {
  var made = element(line, "td", text, kind);
  if (label) made.dataset.label = label;
  return made;
}

function isolated(parent, text) {
  return element(parent, "bdi", text);
}

// Figures come as whole hundredths of a percent.
function percent(share) {
  return share === null ? "–" : Math.round(share / 100) + "%";
}

function shape(parent, tag, attributes) {
  var made = document.createElementNS(NS, tag);
  Object.keys(attributes).forEach(function (name) { made.setAttribute(name, attributes[name]); });
  parent.appendChild(made);
  return made;
}

function picture(width, height, kind, title) {
  var made = document.createElementNS(NS, "svg");
  shape(made, "title", {}).textContent = title;
  [["viewBox", "0 0 " + width + " " + height], ["width", width], ["height", height], ["class", kind], ["role", "img"]]
    .forEach(function (pair) { made.setAttribute(pair[0], pair[1]); });
  return made;
}

// A copy of the bar that the page has for each verdict, its parts moved to the figures of the row.
function interval(row) {
  function x(share) { return 6 + 0.0128 * share; }
  var made = bars[data.verdict[row]].cloneNode(true), parts = made.children;
  parts[0].textContent = percent(data.accuracy[row]) + ", 95% interval " + percent(data.low[row]) + " to " + percent(data.high[row]);
  ["x1", "x2"].forEach(function (end, place) {
    parts[3].setAttribute(end, x(data.chance[row]));
    parts[4].setAttribute(end, x([data.low[row], data.high[row]][place]));
  });
  parts[5].setAttribute("transform", "translate(" + x(data.accuracy[row]) + " 8) scale(3.6)");
  return made;
}

// ---------------------------------------------------------------- what a row opens to

function confusion(parent, table) {
  element(parent, "h4", "Labels given, by cleaned label");
  var grid = element(element(parent, "div", null, "scroll"), "table", null, "confusion");
  var head = element(element(grid, "thead"), "tr");
  element(head, "th", "cleaned ↓ given →");
  table.l.forEach(function (label) { var place = element(head, "th", null, "n");
    place.title = label;
    isolated(place, label); });
  var lines = element(grid, "tbody");
  table.n.forEach(function (counts, row) {
    var total = counts.reduce(function (sum, n) { return sum + n; }, 0);
    var line = element(lines, "tr");
    isolated(element(line, "th"), table.l[row]);
    counts.forEach(function (n, column) {
      var strength = total ? Math.min(Math.round(9 * n / total), 9) : 0;
      var made = element(line, "td", n.toLocaleString("en"), "n " + (row === column ? "hit" : "miss") + " h" + strength);
      made.title = n + " of " + total;
    });
  });
}

function peers(parent, row, list) {
  element(parent, "h4", "Agreement with peers");
  if (!list.length) {
    element(parent, "p", "Nobody has 10 items in common with this annotator.", "soft");
    return;
  }
  var lines = element(element(parent, "table", null, "small"), "tbody");
  list.forEach(function (peer) {
    var line = element(lines, "tr");
    isolated(element(line, "th"), data.names[peer[0]]);
    element(line, "td", Math.round(100 * peer[1] / peer[2]) + "%", "n");
    element(line, "td", "of " + peer[2].toLocaleString("en") + " items", "soft");
  });
}

function examples(parent, list) {
  element(parent, "h4", "Labels against a confident cleaned label");
  if (!list.length) {
    element(parent, "p", "None: no label differs from a cleaned label with a confidence of 80% or more.", "soft");
    return;
  }
  var entries = element(parent, "ul", null, "examples");
  list.forEach(function (example) {
    var entry = element(entries, "li");
    element(entry, "p", example[0], "text").dir = "auto";
    var facts = element(entry, "p", null, "facts");
    var given = element(facts, "span", "Given: ");
    isolated(element(given, "b"), example[1]);
    var cleaned = element(facts, "span", "Cleaned: ");
    isolated(element(cleaned, "b"), example[2]);
    cleaned.appendChild(document.createTextNode(" (" + example[3] + "%)"));
  });
}

function overTime(parent, times) {
  element(parent, "h4", "Labels over time");
  var most = Math.max.apply(null, times.n.concat([1]));
  var title = "Labels in twelve equal periods, at most " + most + " in one" +
    (times.a.length ? "; accuracy " + times.a.map(function (each) { return each[1] + "%"; }).join(", ") : "");
  var made = picture(320, 130, "chart times", title);
  times.n.forEach(function (n, place) {
    var height = 40 * n / most;
    var bar = shape(made, "rect", { x: 38 + 23 * place, y: 112 - height, width: 21, height: height, "class": "fill s5" });
    shape(bar, "title", {}).textContent = n + " labels";
  });
  [0, 50, 100].forEach(function (share) {
    var y = 64 - 0.56 * share;
    shape(made, "line", { x1: 36, y1: y, x2: 316, y2: y, "class": "grid" });
    shape(made, "text", { x: 33, y: y + 4, "text-anchor": "end", "class": "tick" }).textContent = times.a.length ? share + "%" : "";
  });
  shape(made, "text", { x: 38, y: 126, "class": "tick" }).textContent = "bars: labels" + (times.a.length ? ", marks: accuracy with 95% interval" : "");
  times.a.forEach(function (each) {
    var x = 38 + 0.276 * each[0];
    shape(made, "line", { x1: x, y1: 64 - 0.56 * each[2], x2: x, y2: 64 - 0.56 * each[3], "class": "thread" });
    var spot = shape(made, "circle", { cx: x, cy: 64 - 0.56 * each[1], r: 3.4, "class": "spot s0" });
    shape(spot, "title", {}).textContent = each[1] + "%, " + each[2] + " to " + each[3] + "%";
  });
  parent.appendChild(made);
}

function detail(row) {
  var line = element(null, "tr", null, "detail");
  line.id = "detail-" + row;
  var place = element(line, "td");
  place.colSpan = heads.length;
  var found = data.details[row];
  var figures = "Expertise (beta) " + (data.expertise[row] === null ? "–" : (data.expertise[row] / 10000).toFixed(2));
  if (data.trained && data.trained[row] !== null) figures += ", as trained " + (data.trained[row] / 10000).toFixed(2);
  figures += "; chance level " + percent(data.chance[row]) + ".";
  var box = element(place, "div", null, "details");
  var about = element(box, "div");
  element(about, "h4", "Habit");
  var habit = data.habit && data.habit[row] ? data.habit[row][0].toUpperCase() + data.habit[row].slice(1) + "." : "";
  var answers = found && found.h ? found.h.filter(function (answer) { return answer[1] > 0; }).map(function (answer) { return answer[0] + " " + answer[1] + "%"; }) : [];
  if (answers.length) isolated(element(about, "p"), "Labels given when not answering from the item: " + answers.join(", ") + ".");
  else isolated(element(about, "p"), habit || "Nearly every label is given from the item: no habit shows.");
  if (data.notes && data.notes[row]) isolated(element(about, "p"), "Note: " + data.notes[row] + ".");
  element(about, "p", figures, "soft");
  if (!found) {
    element(box, "p", "No more details of this annotator are in this file, to keep it small.", "soft");
    return line;
  }
  confusion(element(box, "div"), found.c);
  peers(element(box, "div"), row, found.p);
  if (found.t) overTime(element(box, "div"), found.t);
  examples(element(box, "div", null, "wide"), found.e);
  return line;
}

function toggle(row, line, button) {
  var opens = !open[row];
  open[row] = opens;
  button.setAttribute("aria-expanded", String(opens));
  if (opens) {
    line.after(detail(row));
    button.setAttribute("aria-controls", "detail-" + row);
  } else {
    var old = document.getElementById("detail-" + row);
    if (old) old.remove();
  }
}

// ---------------------------------------------------------------- rows

function line(row) {
  var made = document.createElement("tr");
  made.className = "opens";
  var who = element(made, "th");
  who.scope = "row";
  var button = element(who, "button", null, "opener");
  button.type = "button";
  isolated(button, data.names[data.who[row]]);
  button.setAttribute("aria-expanded", "false");
  if (data.tasks.length > 1) isolated(cell(made, null, "", "Task"), data.tasks[data.task[row]]);
  cell(made, null, "bar").appendChild(interval(row));
  cell(made, percent(data.accuracy[row]), "n", "Accuracy");
  cell(made, percent(data.low[row]).slice(0, -1) + "–" + percent(data.high[row]), "n", "from–to");
  element(cell(made, null, "verdict"), "span", data.verdicts[data.verdict[row]], "badge b" + data.verdict[row]);
  cell(made, data.n[row].toLocaleString("en"), "n", "Labels");
  cell(made, percent(data.agreement[row]), "n", "As cleaned");
  if (data.trend) cell(made, data.trend[row], "", "Trend");
  if (remarks) {
    var place = cell(made, null, "words", "Notes");
    var told = [data.habit, data.notes].map(function (column) { return column ? column[row] : ""; }).filter(Boolean);
    if (told.length) isolated(place, told.join("; "));
  }
  made.addEventListener("click", function (event) {
    if (window.getSelection && String(window.getSelection())) return; // somebody marks text
    if (event.target.closest("a, input, select")) return;
    toggle(row, made, button);
  });
  return made;
}

function show() {
  var found = matching();
  var fresh = document.createDocumentFragment();
  found.slice(0, shown).forEach(function (row) {
    var made = line(row);
    fresh.appendChild(made);
    if (open[row]) {
      made.querySelector(".opener").setAttribute("aria-expanded", "true");
      fresh.appendChild(detail(row));
    }
  });
  body.replaceChildren(fresh);
  var visible = Math.min(shown, found.length);
  count.textContent = visible.toLocaleString("en") + " of " + found.length.toLocaleString("en") + " shown" +
    (found.length < rows.length ? " (" + rows.length.toLocaleString("en") + " in all)" : "");
  paper.textContent = visible < rows.length ? visible.toLocaleString("en") + " of " +
    rows.length.toLocaleString("en") + " annotators are printed." : "";
  more.hidden = all.hidden = visible >= found.length;
}

function sortBy(column, descending) {
  sorted = column;
  down = descending;
  heads.forEach(function (head) {
    var own = head.querySelector("[data-sort]").dataset.sort === column;
    head.setAttribute("aria-sort", own ? (down ? "descending" : "ascending") : "none");
  });
  order.value = (down ? "-" : "") + column;
  if (order.selectedIndex < 0) order.value = "";
  show();
}

Array.prototype.forEach.call(table.querySelectorAll("[data-sort]"), function (button) {
  button.disabled = false;
  button.addEventListener("click", function () {
    var column = button.dataset.sort;
    // Names go up first, figures down: the way each is looked for.
    sortBy(column, sorted === column ? !down : column !== "annotator" && column !== "task");
  });
});
order.addEventListener("change", function () {
  if (order.value) sortBy(order.value.replace("-", ""), order.value[0] === "-");
});
function again() { shown = first; show(); }
search.addEventListener("input", again);
if (ofTask) ofTask.addEventListener("change", again);
chips.forEach(function (chip) {
  chip.addEventListener("click", function () {
    chip.setAttribute("aria-pressed", chip.getAttribute("aria-pressed") === "true" ? "false" : "true");
    again();
  });
});
more.addEventListener("click", function () { shown += 100; show(); });
all.addEventListener("click", function () { shown = rows.length; show(); });
document.getElementById("annotator-save").addEventListener("click", function () {
  var figures = ["accuracy", "low", "high", "agreement", "expertise", "trained"].filter(function (name) { return data[name]; });
  var head = ["annotator", "task", "verdict", "annotations"].concat(figures, words);
  save("annotators.csv", [head].concat(matching().map(function (row) {
    return [data.names[data.who[row]], data.tasks[data.task[row]], data.verdicts[data.verdict[row]], data.n[row]]
      .concat(figures.map(function (name) { return data[name][row] === null ? "" : data[name][row] / 10000; }))
      .concat(words.map(function (name) { return data[name][row]; }));
  })));
});

// A name in the bad news opens that annotator's rows.
Array.prototype.forEach.call(document.querySelectorAll("[data-opens]"), function (link) {
  link.addEventListener("click", function (event) {
    event.preventDefault();
    var name = link.dataset.opens;
    var wanted = rows.filter(function (row) { return data.names[data.who[row]] === name; });
    search.value = wanted.length ? name : "";
    chips.forEach(function (chip) { chip.setAttribute("aria-pressed", "false"); });
    if (ofTask) ofTask.value = "";
    wanted.slice(0, 1).forEach(function (row) { open[row] = true; });
    again();
    document.getElementById("annotator-tools").scrollIntoView();
    var opener = body.querySelector(".opener[aria-expanded=true]");
    if (opener) opener.focus({ preventScroll: true });
  });
});

// On paper all rows stand, as far as there is room.
var before = shown;
window.addEventListener("beforeprint", function () { before = shown; shown = Math.max(shown, printed); show(); });
window.addEventListener("afterprint", function () { shown = before; show(); });

document.getElementById("annotator-tools").hidden = false;
Array.prototype.forEach.call(document.querySelectorAll(".needs-script"), function (part) { part.hidden = false; });
show();
