"""What a run has measured: kept as JSON, compared with an earlier run, and drawn as SVG."""

import datetime
import html
import json
import os
import platform
import subprocess

# The targets that the figures of two runs can be divided by, because they are the same programs in both.
BASES = ("mirror", "disk")
BAR, GAP, LEFT, WIDTH = 14, 10, 210, 640
COLOURS = {"embedded": "#8a8a8a", "postgres": "#d9822b", "delayed": "#e8b27d", "two-hubs": "#5b8db8",
           "three-hubs": "#3d6a94", "two-delayed": "#a9c3d9", "disk": "#8a8a8a", "mirror": "#5b8db8", "mirror-uring": "#3d6a94", "concord": "#d9822b",
           "concord-uring": "#b5651d", "before": "#e8b27d"}
OTHER_COLOUR = "#9a7bb0"


class Results:
    """Tables of medians. Each has a title, a unit, and rows {what: {target: value}}; lower is usually better."""

    def __init__(self, concord):
        version = subprocess.run([concord, "--version"], capture_output=True, text=True).stdout.strip() \
            if concord else ""
        self.machine = {
            "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
            "kernel": platform.release(), "processors": os.cpu_count(), "processor": processor(),
            "memory": memory(), "concord": version}
        self.tables = []

    def add(self, title, unit, rows, better="shorter"):
        self.tables.append({"title": title, "unit": unit, "rows": rows, "better": better})

    def save(self, path):
        with open(path, "w") as file:
            json.dump({"machine": self.machine, "tables": self.tables}, file, indent=1)
            file.write("\n")

    def draw(self, folder):
        os.makedirs(folder, exist_ok=True)
        for table in self.tables:
            name = "".join(c if c.isalnum() else "-" for c in table["title"].split(":")[0].lower())
            with open(os.path.join(folder, name + ".svg"), "w") as file:
                file.write(picture(table, self.machine))

    def compare(self, path):
        """Prints how Concord's figures relate to those of an earlier run, and to what the machine did then."""
        with open(path) as file:
            earlier = json.load(file)
        then = {table["title"]: table["rows"] for table in earlier["tables"]}
        print(f"\nCompared with {path} of {earlier['machine']['date']}: concord now / then, and the same after "
              "division by the mirror (or the disk) of the same run")
        for table in self.tables:
            for what, row in table["rows"].items():
                before = then.get(table["title"], {}).get(what, {})
                if before.get("concord") and row.get("concord"):
                    print(f"{table['title'][:30]:32}{what:30}" + change(before, row))


def change(before, now):
    ratio = now["concord"] / before["concord"]
    base = next((name for name in BASES if before.get(name) and now.get(name)), None)
    text = f"{before['concord']:12.2f} -> {now['concord']:10.2f}  x {ratio:.2f}"
    return text + (f"   x {ratio * before[base] / now[base]:.2f} relative to the {base}" if base else "")


def picture(table, machine):
    """Bars, one group for each row. Each row has its own scale: its slowest target has the full width."""
    lines, y = [], 58
    for what, row in table["rows"].items():
        longest = max(row.values()) or 1
        lines.append(f'<text x="{LEFT - 8}" y="{y + BAR - 3}" text-anchor="end">{html.escape(what)}</text>')
        for name, value in row.items():
            width = max(1, value / longest * (WIDTH - LEFT - 170))
            lines.append(
                f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR - 3}" '
                f'fill="{COLOURS.get(name, OTHER_COLOUR)}"/>'
                f'<text x="{LEFT + width + 5:.1f}" y="{y + BAR - 4}">{value:,.2f} {html.escape(name)}</text>')
            y += BAR
        y += GAP
    about = f"{machine['date'][:10]}, {machine['processors']} x {machine['processor']}, Linux {machine['kernel']}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 6}" '
        f'viewBox="0 0 {WIDTH} {y + 6}" font-family="sans-serif" font-size="10" fill="#222">\n'
        f'<rect width="100%" height="100%" fill="#fff"/>\n'
        f'<text x="10" y="18" font-size="13">{html.escape(table["title"])}</text>\n'
        f'<text x="10" y="33">{html.escape(table["unit"])}; {table["better"]} is better</text>\n'
        f'<text x="10" y="47" fill="#666">{html.escape(about)}</text>\n' + "\n".join(lines) + "\n</svg>\n")


def processor():
    with open("/proc/cpuinfo") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.machine()


def memory():
    with open("/proc/meminfo") as file:
        return f"{int(file.readline().split()[1]) / (1 << 20):.0f} GiB"
