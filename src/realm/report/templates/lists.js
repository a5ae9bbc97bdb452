// ---------------------------------------------------------------- lists of items: search, filter, order, CSV

Array.prototype.forEach.call(document.querySelectorAll("[data-list]"), function (tools) {
  var list = document.getElementById(tools.dataset.list);
  var entries = Array.prototype.slice.call(list.children);
  var texts = entries.map(function (entry) { return plain(entry.textContent); });
  var search = tools.querySelector("[type=search]");
  var filters = Array.prototype.slice.call(tools.querySelectorAll("[data-by]"));
  var order = tools.querySelector("[data-order]");
  var count = tools.querySelector(".count");

  function selection() {
    var wanted = plain(search.value.trim());
    var places = entries.map(function (_, place) { return place; }).filter(function (place) {
      return texts[place].indexOf(wanted) >= 0 && filters.every(function (filter) {
        return filter.value === "" || entries[place].getAttribute("data-" + filter.dataset.by) === filter.value;
      });
    });
    var column = order.value.replace("-", ""), sign = order.value[0] === "-" ? -1 : 1;
    if (column) {
      places.sort(function (a, b) {
        var x = entries[a].getAttribute("data-" + column), y = entries[b].getAttribute("data-" + column);
        var difference = column === "item" ? x.localeCompare(y, "en", { numeric: true }) : Number(x) - Number(y);
        return sign * difference || a - b;
      });
    }
    return places;
  }

  function show() {
    var places = selection();
    entries.forEach(function (entry) { entry.hidden = true; });
    places.forEach(function (place) { entries[place].hidden = false; });
    // Those that are shown stand first, so that the first of them are printed.
    places.concat(entries.map(function (_, place) { return place; }).filter(function (place) {
      return entries[place].hidden;
    })).forEach(function (place) { list.appendChild(entries[place]); });
    count.textContent = places.length.toLocaleString("en") + " of " + entries.length.toLocaleString("en") + " shown";
  }

  search.addEventListener("input", show);
  filters.concat([order]).forEach(function (box) { box.addEventListener("change", show); });
  tools.querySelector("[data-save]").addEventListener("click", function () {
    var columns = tools.dataset.columns.split(" ");
    save(tools.dataset.file, [columns].concat(selection().map(function (place) {
      return columns.map(function (column) {
        if (column === "text") return entries[place].querySelector(".text").textContent;
        return entries[place].getAttribute("data-" + column);
      });
    })));
  });
  tools.hidden = false;
  show();
});
