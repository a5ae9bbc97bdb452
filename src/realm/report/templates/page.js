(function () {
"use strict";

// ---------------------------------------------------------------- theme

var root = document.documentElement, button = document.getElementById("theme");
var dark = window.matchMedia("(prefers-color-scheme: dark)");

function isDark() { return root.dataset.theme ? root.dataset.theme === "dark" : dark.matches; }

function nameTheme() {
  button.textContent = isDark() ? "Light" : "Dark";
  button.setAttribute("aria-label", "Switch to the " + button.textContent.toLowerCase() + " theme");
}

nameTheme();
button.hidden = false;
button.addEventListener("click", function () { root.dataset.theme = isDark() ? "light" : "dark"; nameTheme(); });
dark.addEventListener("change", nameTheme);

// ---------------------------------------------------------------- search and CSV from the page

function plain(text) { return text.toLocaleLowerCase().normalize("NFKD"); }

// The rule of the project's own CSV files: text that a spreadsheet would run gets a ' in front; numbers stay numbers.
function guarded(text) {
  var runs = /^'*[=+\-@\t\r\n]/.test(text) && !/^[+-]\d+(\.\d+)?([eE][+-]?\d+)?$/.test(text);
  return runs ? "'" + text : text;
}

function save(name, rows) {
  var lines = rows.map(function (row) {
    return row.map(function (value) {
      var text = guarded(value || "");
      return /[",\r\n]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
    }).join(",") + "\n";
  });
  var address = URL.createObjectURL(new Blob(lines, { type: "text/csv;charset=utf-8" }));
  var link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(function () { URL.revokeObjectURL(address); }, 10000);
}

// ---------------------------------------------------------------- lists of items and the table of annotators

var printed = 500, lists = {};

Array.from(document.querySelectorAll("[data-list]")).forEach(function (tools) {
  var list = document.getElementById(tools.dataset.list);
  // A row of the table is a tbody, with the row that it opens to.
  var entries = Array.from(list.tBodies || list.children);
  var texts = entries.map(function (entry) { return plain(entry.dataset.annotator || entry.textContent); });
  var search = tools.querySelector("[type=search]"), order = tools.querySelector("[data-order]");
  var filters = Array.from(tools.querySelectorAll("[data-by]"));
  var heads = Array.from(list.querySelectorAll("[data-sort]"));
  var first = Number(tools.dataset.first) || Infinity, limit = first;
  var more = document.createElement("button");

  function value(entry, column) { return entry.getAttribute("data-" + column) || ""; }

  function selection() {
    var wanted = plain(search.value.trim()), column = order.value.replace("-", ""), sign = order.value[0] === "-" ? -1 : 1;
    var found = entries.filter(function (entry, place) {
      return texts[place].indexOf(wanted) >= 0 && filters.every(function (filter) {
        return filter.value === "" || value(entry, filter.dataset.by) === filter.value;
      });
    });
    if (!column) return found;
    return found.sort(function (a, b) {
      var x = value(a, column), y = value(b, column);
      return sign * (Number(x) - Number(y) || x.localeCompare(y, "en", { numeric: true }));
    });
  }

  function show() {
    var found = selection(), shown = Math.min(limit, found.length);
    entries.forEach(function (entry) { entry.hidden = true; });
    // Those that are shown stand first, so that the first of them are printed.
    found.concat(entries.filter(function (entry) { return found.indexOf(entry) < 0; }))
      .forEach(function (entry) { list.appendChild(entry); });
    found.slice(0, limit).forEach(function (entry) { entry.hidden = false; });
    tools.querySelector(".count").textContent = shown.toLocaleString("en") + " of " + entries.length.toLocaleString("en") + " shown";
    more.hidden = shown >= found.length;
    heads.forEach(function (head) {
      var way = order.value === head.dataset.sort ? "ascending" : order.value === "-" + head.dataset.sort ? "descending" : "none";
      head.parentNode.setAttribute("aria-sort", way);
    });
  }

  function again() { limit = first; show(); }

  search.addEventListener("input", again);
  filters.concat([order]).forEach(function (box) { box.addEventListener("change", again); });
  heads.forEach(function (head) {
    head.disabled = false;
    head.addEventListener("click", function () {
      // Names go up first, figures down: the way each is looked for.
      var column = head.dataset.sort, ways = ["-" + column, column];
      if (column === "annotator" || column === "task" || column === "verdict") ways.reverse();
      var way = order.value === ways[0] ? ways[1] : ways[0];
      if (!order.querySelector('[value="' + way + '"]')) order.add(new Option("by " + head.textContent, way));
      order.value = way;
      show();
    });
  });
  tools.querySelector("[data-save]").addEventListener("click", function () {
    var columns = tools.dataset.columns.trim().split(/\s+/);
    save(tools.dataset.file, [columns].concat(selection().map(function (entry) {
      return columns.map(function (column) {
        return column === "text" ? entry.querySelector(".text").textContent : value(entry, column);
      });
    })));
  });
  more.type = "button";
  more.className = "more";
  more.textContent = "Show all";
  more.addEventListener("click", function () { limit = Infinity; show(); });
  list.after(more);
  lists[list.id] = { all: function () { search.value = ""; filters.forEach(function (box) { box.value = ""; }); limit = Infinity; show(); } };
  window.addEventListener("beforeprint", function () { limit = Math.max(limit, printed); show(); });
  tools.hidden = false;
  show();
});

// A name in the bad news opens that annotator's row.
Array.from(document.querySelectorAll("[data-opens]")).forEach(function (link) {
  link.addEventListener("click", function (event) {
    var row = Array.from(document.querySelectorAll("#annotators > tbody")).find(function (each) {
      return each.dataset.annotator === link.dataset.opens;
    });
    if (!row) return;
    event.preventDefault();
    lists.annotators.all();
    var details = row.querySelector("details");
    if (details) details.open = true;
    row.scrollIntoView({ block: "center" });
    (row.querySelector("summary") || link).focus({ preventScroll: true });
  });
});
})();
