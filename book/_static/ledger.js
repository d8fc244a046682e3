/* The ledger's table: lists choose verdict, kind and paper, a field looks for words, and an address can choose for them. */
(() => {
  const rows = [...document.querySelectorAll("#ledger tbody tr")];
  const lists = Object.fromEntries(["verdict", "kind", "paper"].map((name) => [name, document.getElementById(`ledger-${name}`)]));
  const words = document.getElementById("ledger-words");
  for (const [name, value] of new URLSearchParams(location.search)) if (name in lists) lists[name].value = value;
  const choose = () => {
    const wanted = words.value.toLowerCase().split(/\s+/);
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      const fits = Object.entries(lists).every(([name, list]) => !list.value || row.dataset[name].split(" ").includes(list.value));
      row.hidden = !(fits && wanted.every((word) => text.includes(word)));
    }
    const shown = rows.filter((row) => !row.hidden).length;
    document.getElementById("ledger-count").textContent = shown < rows.length ? `${shown} of ${rows.length} claims` : `${shown} claims`;
  };
  for (const control of [...Object.values(lists), words]) control.addEventListener("input", choose);
  const open = () => {
    const row = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!row?.matches?.("tr")) return;
    row.querySelector("details").open = true;
    row.scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", open);
  choose();
  open();
})();
