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

// ---------------------------------------------------------------- search and CSV from the page

function plain(text) {
  return text.toLocaleLowerCase().normalize("NFKD");
}

// The rule of the project's own CSV files: text that a spreadsheet would run gets a ' in front; numbers stay numbers.
function guarded(text) {
  var runs = /^'*[=+\-@\t\r\n]/.test(text) && !/^[+-]\d+(\.\d+)?([eE][+-]?\d+)?$/.test(text);
  return runs ? "'" + text : text;
}

function csv(rows) {
  return rows.map(function (row) {
    return row.map(function (value) {
      var text = guarded(value === null || value === undefined ? "" : String(value));
      return /[",\r\n]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
    }).join(",");
  }).join("\n") + "\n";
}

function save(name, rows) {
  var address = URL.createObjectURL(new Blob([csv(rows)], { type: "text/csv;charset=utf-8" }));
  var link = document.createElement("a");
  link.href = address;
  link.download = name;
  document.body.appendChild(link);
  link.click();
  link.remove();
  setTimeout(function () { URL.revokeObjectURL(address); }, 10000);
}
