(function () {
  "use strict";

  // ---------------------------------------------------------------- theme

  var root = document.documentElement;
  var dark = window.matchMedia("(prefers-color-scheme: dark)");

  function isDark() {
    return root.dataset.theme ? root.dataset.theme === "dark" : dark.matches;
  }

  function nameTheme(button) {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", isDark() ? "Switch to the light theme" : "Switch to the dark theme");
  }

  var theme = document.getElementById("theme");
  nameTheme(theme);
  theme.hidden = false;
  theme.addEventListener("click", function () {
    root.dataset.theme = isDark() ? "light" : "dark";
    nameTheme(theme);
  });
  dark.addEventListener("change", function () { nameTheme(theme); });

  // Closed parts are opened for the printer and closed again after.
  var opened = [];
  window.addEventListener("beforeprint", function () {
    opened = Array.prototype.slice.call(document.querySelectorAll("details:not([open])"));
    opened.forEach(function (part) { part.open = true; });
  });
  window.addEventListener("afterprint", function () {
    opened.forEach(function (part) { part.open = false; });
  });

  // ---------------------------------------------------------------- lists of items: search

  function plain(text) {
    return text.toLocaleLowerCase().normalize("NFKD");
  }

  Array.prototype.forEach.call(document.querySelectorAll("[data-searches]"), function (box) {
    var list = document.getElementById(box.dataset.searches);
    var entries = Array.prototype.slice.call(list.children);
    var texts = entries.map(function (entry) { return plain(entry.textContent); });
    box.closest(".tools").hidden = false;
    box.addEventListener("input", function () {
      var wanted = plain(box.value.trim());
      entries.forEach(function (entry, index) {
        entry.hidden = texts[index].indexOf(wanted) < 0;
      });
    });
  });

  // ---------------------------------------------------------------- the table of annotators

  var table = document.getElementById("annotators");
  if (!table) return;
  var data = JSON.parse(document.getElementById("annotators-data").textContent);
  var body = table.tBodies[0];
  var search = document.getElementById("annotator-search");
  var ofTask = document.getElementById("annotator-task");
  var chips = Array.prototype.slice.call(document.querySelectorAll("[data-verdict]"));
  var count = document.getElementById("annotator-count");
  var more = document.getElementById("annotator-more");
  var names = data.names.map(plain);
  var first = 25, shown = first;
  var sorted = "accuracy", down = true;
  var NS = table.querySelector("svg").namespaceURI;
  var rows = data.accuracy.map(function (_, index) { return index; });

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
      var order = typeof x === "string" ? x.localeCompare(y) : (x === null ? -1 : x) - (y === null ? -1 : y);
      return (down ? -order : order) || a - b;
    });
  }

  function cell(line, text, kind) {
    var made = line.insertCell();
    if (kind) made.className = kind;
    made.textContent = text;
    return made;
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

  function interval(row) {
    function x(share) { return 6 + 0.0128 * share; }
    var kind = data.verdict[row], at = x(data.accuracy[row]), chance = x(data.chance[row]);
    var picture = document.createElementNS(NS, "svg");
    var said = percent(data.accuracy[row]) + ", 95% interval " + percent(data.low[row]) + " to " + percent(data.high[row]);
    shape(picture, "title", {}).textContent = said;
    [["viewBox", "0 0 140 16"], ["width", 140], ["height", 16], ["class", "inline"], ["role", "img"]].forEach(
      function (pair) { picture.setAttribute(pair[0], pair[1]); });
    shape(picture, "line", { x1: 6, y1: 8, x2: 134, y2: 8, "class": "track" });
    shape(picture, "line", { x1: chance, y1: 3, x2: chance, y2: 13, "class": "guide" });
    shape(picture, "line", { x1: x(data.low[row]), y1: 8, x2: x(data.high[row]), y2: 8, "class": "whisker v" + kind });
    mark(picture, at, kind);
    return picture;
  }

  function mark(picture, at, kind) {
    if (kind === 4) {
      var cross = "M" + (at - 3.6) + ",4.4l7.2,7.2m0,-7.2l-7.2,7.2";
      shape(picture, "path", { d: cross, "class": "mark v4 cross" });
    } else if (kind === 3) {
      shape(picture, "rect", { x: at - 3.2, y: 4.8, width: 6.4, height: 6.4, "class": "mark v3" });
    } else if (kind === 1) {
      var diamond = "M" + (at - 4.3) + ",8l4.3,-4.3l4.3,4.3l-4.3,4.3Z";
      shape(picture, "path", { d: diamond, "class": "mark v1" });
    } else {
      shape(picture, "circle", { cx: at, cy: 8, r: 3.6, "class": "mark v" + kind + (kind === 2 ? " ring" : "") });
    }
  }

  function show() {
    var found = matching();
    var fresh = document.createDocumentFragment();
    found.slice(0, shown).forEach(function (row) {
      var line = document.createElement("tr");
      var who = document.createElement("th");
      who.scope = "row";
      var name = document.createElement("bdi");
      name.textContent = data.names[data.who[row]];
      who.appendChild(name);
      line.appendChild(who);
      if (data.tasks.length > 1) {
        var task = document.createElement("bdi");
        task.textContent = data.tasks[data.task[row]];
        cell(line, "").appendChild(task);
      }
      cell(line, "", "bar").appendChild(interval(row));
      cell(line, percent(data.accuracy[row]), "n");
      cell(line, percent(data.low[row]).slice(0, -1) + "–" + percent(data.high[row]), "n");
      var verdict = cell(line, "", "verdict");
      var badge = document.createElement("span");
      badge.className = "badge b" + data.verdict[row];
      badge.textContent = data.verdicts[data.verdict[row]];
      verdict.appendChild(badge);
      cell(line, data.n[row].toLocaleString("en"), "n");
      cell(line, percent(data.agreement[row]), "n");
      cell(line, (data.expertise[row] / 10000).toFixed(2), "n");
      if (data.trained) cell(line, data.trained[row] === null ? "–" : (data.trained[row] / 10000).toFixed(2), "n");
      ["habit", "notes"].forEach(function (column) {
        if (!data[column]) return;
        var words = document.createElement("bdi");
        words.textContent = data[column][row];
        cell(line, "").appendChild(words);
      });
      fresh.appendChild(line);
    });
    body.replaceChildren(fresh);
    var visible = Math.min(shown, found.length);
    count.textContent = visible.toLocaleString("en") + " of " + found.length.toLocaleString("en") + " shown" +
      (found.length < rows.length ? " (" + rows.length.toLocaleString("en") + " in all)" : "");
    more.hidden = visible >= found.length;
  }

  Array.prototype.forEach.call(table.querySelectorAll("[data-sort]"), function (button) {
    button.disabled = false;
    button.addEventListener("click", function () {
      var column = button.dataset.sort;
      // Names go up first, figures down: the way each is looked for.
      down = sorted === column ? !down : column !== "annotator" && column !== "task";
      sorted = column;
      Array.prototype.forEach.call(table.querySelectorAll("th[aria-sort]"), function (head) {
        head.setAttribute("aria-sort", "none");
      });
      button.closest("th").setAttribute("aria-sort", down ? "descending" : "ascending");
      show();
    });
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
  document.getElementById("annotator-tools").hidden = false;
  show();
})();
