/* The ledger's table: DataTables sorts it and searches it; lists choose verdict, kind and paper, and an address can choose for them. */
(() => {
  const table = document.getElementById("ledger");
  const lists = Object.fromEntries(["verdict", "kind", "paper"].map((name) => [name, document.getElementById(`ledger-${name}`)]));
  for (const [name, value] of new URLSearchParams(location.search)) if (name in lists) lists[name].value = value;
  const chosen = (row) => Object.entries(lists).every(([name, list]) => !list.value || row.dataset[name] === list.value);
  DataTable.ext.search.push((settings, data, index) => settings.nTable !== table || chosen(settings.aoData[index].nTr));
  const shown = new DataTable(table, {
    paging: false,
    order: [],
    autoWidth: false,
    layout: { topStart: "info", topEnd: "search", bottomStart: null, bottomEnd: null },
    language: { info: "_TOTAL_ claims", infoEmpty: "no claim", infoFiltered: "of _MAX_", search: "Search ", zeroRecords: "No claim fits." },
  });
  for (const list of Object.values(lists)) list.addEventListener("change", () => shown.draw());
  const open = () => {
    const row = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!row?.matches?.("tr")) return;
    row.querySelector("details").open = true;
    row.scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", open);
  open();
})();
