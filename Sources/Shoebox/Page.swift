/// The page that the browser gets.
enum Page {
    static let html = """
        <!doctype html>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width">
        <title>Shoebox</title>
        <link rel="stylesheet" href="shoebox.css">
        <header><h1>Shoebox</h1><p id="state">…</p></header>
        <main></main>
        <dialog>
          <h2></h2>
          <p>Several versions were saved at the same time. Which one to keep?</p>
          <div></div>
          <form method="dialog"><button>Later</button></form>
        </dialog>
        <script src="shoebox.js"></script>
        """

    static let style = """
        body { margin: 0; font: 14px system-ui, sans-serif; color: #ddd; background: #222; }
        header { display: flex; align-items: baseline; gap: 1em; padding: 0 16px; }
        h1 { font-size: 20px; }
        main { display: grid; gap: 12px; padding: 16px;
               grid-template-columns: repeat(auto-fill, minmax(180px, 1fr)); }
        figure { margin: 0; }
        .frame { position: relative; height: 180px; border-radius: 6px; overflow: hidden;
                 background: #333; display: grid; place-items: center; }
        .frame::after { content: "☁"; font-size: 48px; color: #666; }
        .frame.loaded::after { content: none; }
        .frame img { position: absolute; width: 100%; height: 100%; object-fit: cover;
                     opacity: 0; transition: opacity .3s; }
        .frame.loaded img { opacity: 1; }
        .frame progress { position: absolute; bottom: 8px; left: 8px; width: calc(100% - 16px); }
        .frame button { position: absolute; top: 8px; right: 8px; background: #fc0; border: 0;
                        border-radius: 9px; padding: 2px 8px; }
        figcaption { padding: 4px; overflow: hidden; text-overflow: ellipsis; }
        dialog { color: #ddd; background: #333; border: 0; border-radius: 8px; max-width: 90vw; }
        dialog div { display: flex; gap: 16px; overflow: auto; }
        dialog img { height: 240px; border-radius: 6px; }
        """

    static let script = """
        const grid = document.querySelector("main");
        const state = document.querySelector("#state");
        const sheet = document.querySelector("dialog");
        const tiles = new Map();
        const url = (what, about) => what + "?" + new URLSearchParams(about);

        function make(path) {
          const tile = document.createElement("figure");
          tile.innerHTML = "<div class=frame><img loading=lazy alt=''><progress max=100>" +
            "</progress><button>in conflict</button></div><figcaption></figcaption>";
          tile.dataset.path = path;
          tile.querySelector("figcaption").textContent = path;
          tile.querySelector("button").onclick = () => settle(path);
          const image = tile.querySelector("img");
          image.onload = () => image.parentNode.classList.add("loaded");
          image.onerror = () => { image.removeAttribute("src"); tile.dataset.version = ""; };
          tiles.set(path, tile);
          return tile;
        }

        // The image loads lazily: the browser requests visible pictures only, which downloads them.
        function show(tile, picture) {
          const frame = tile.querySelector(".frame");
          if (tile.dataset.version !== picture.version) {
            tile.dataset.version = picture.version;
            frame.querySelector("img").src =
              url("picture", { path: picture.path, version: picture.version });
          }
          const progress = frame.querySelector("progress");
          progress.hidden = picture.isHere || picture.percent == null;
          progress.value = picture.percent ?? 0;
          frame.querySelector("button").hidden = !picture.isInConflict;
          tile.dataset.here = picture.isHere;
        }

        async function look() {
          const pictures = await (await fetch("pictures")).json();
          const paths = new Set(pictures.map(picture => picture.path));
          for (const [path, tile] of tiles) {
            if (!paths.has(path)) { tile.remove(); tiles.delete(path); }
          }
          pictures.forEach((picture, at) => {
            const tile = tiles.get(picture.path) ?? make(picture.path);
            if (grid.children[at] !== tile) grid.insertBefore(tile, grid.children[at] ?? null);
            show(tile, picture);
          });
          const away = pictures.filter(picture => !picture.isHere).length;
          state.textContent = pictures.length + " pictures" +
            (away ? ", " + away + " not on this device" : "");
        }

        async function settle(path) {
          const rivals = await (await fetch(url("rivals", { path }))).json();
          sheet.querySelector("h2").textContent = path;
          sheet.querySelector("div").replaceChildren(...rivals.map(rival => {
            const figure = document.createElement("figure");
            figure.innerHTML = "<img alt=''><figcaption></figcaption><button>Keep</button>";
            figure.querySelector("img").src = url("version", { path, id: rival.id });
            figure.querySelector("figcaption").textContent =
              rival.person + " on " + rival.device + ", " +
              new Date(rival.time * 1000).toLocaleString() +
              (rival.isCurrent ? " (shown now)" : "");
            figure.querySelector("button").onclick = async () => {
              const answer = await fetch(url("keep", { path, id: rival.id }), { method: "POST" });
              if (!answer.ok) alert(await answer.text());
              sheet.close();
            };
            return figure;
          }));
          sheet.showModal();
        }

        // Looks run one after the other. A change during a look leads to one more.
        let looking = false, again = false;
        async function changed() {
          again = true;
          if (looking) return;
          looking = true;
          while (again) { again = false; try { await look(); } catch (e) { again = false; } }
          looking = false;
        }
        const events = new EventSource("events");
        events.onmessage = changed;
        events.onerror = () => { state.textContent = "shoebox has ended"; };
        """
}
