"""How the page of a report looks, and the script that sorts its tables."""

from tf_fedsam.looks import COLOURS, DARK_COLOURS


def _variables(colours: tuple[str, ...]) -> str:
    return ";".join(f"--s{place}:{colour}" for place, colour in enumerate(colours))


_RULES = """
:root{color-scheme:light dark;--paper:#fff;--ink:#1d2330;--soft:#5a6375;--line:#d9dde5;
--wash:#f4f6f9;
--grid:#e3e6ec;--accent:#0b5cad;--warn:#8a4b00;--warnwash:#fff4e0;
COLOURS}
@media(prefers-color-scheme:dark){:root{--paper:#14171d;--ink:#e6e9ef;--soft:#a2abbb;
--line:#343a46;
--wash:#1c2129;--grid:#2b313c;--accent:#7db8f5;--warn:#ffc978;--warnwash:#33270f;
DARK}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1180px;padding:1.5rem 1rem 3rem;background:var(--paper);
color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;
overflow-wrap:break-word}
h1{font-size:1.9rem;line-height:1.2;margin:.2em 0 .5em;letter-spacing:-.015em}
h2{font-size:1.4rem;line-height:1.25;margin:2.6rem 0 .6rem;padding-top:1.2rem;
border-top:2px solid var(--line)}
h3{font-size:1.12rem;margin:2.2rem 0 .3rem}
h4{font-size:1rem;margin:1.3rem 0 .3rem}
p{margin:.3rem 0 .8rem;max-width:75ch}
h3+p,.said,.notes{color:var(--soft);font-size:.92rem}
.lead{font-size:1.05rem}
a{color:var(--accent)}
code,pre{font:.84rem/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
pre{margin:.2rem 0;padding:.5rem .7rem;background:var(--wash);border-radius:6px;
white-space:pre-wrap;
overflow-wrap:anywhere}
code,dt,dd,li{overflow-wrap:anywhere}
dt{font-weight:600;margin-top:.6rem}dd{margin:0;font-size:.9rem}
details{margin:1rem 0}summary{cursor:pointer;font-weight:600}
.banner{background:var(--warnwash);color:var(--warn);padding:.5rem .8rem;border-radius:6px;
max-width:none}
.banner a{color:inherit}
.notes{padding-left:1.1rem;margin:.6rem 0;max-width:85ch}
.box{overflow-x:auto;margin:.9rem 0;border:1px solid var(--line);border-radius:8px;
background:var(--paper)}
.box:focus-visible{outline:2px solid var(--accent)}
table{border-collapse:separate;border-spacing:0;width:100%;font-size:.9rem;
font-variant-numeric:tabular-nums}
caption{text-align:left;font-weight:600;padding:.55rem .8rem;position:sticky;left:0}
th,td{padding:.45rem .65rem;text-align:right;white-space:nowrap;border-top:1px solid var(--line)}
thead th{background:var(--wash);font-weight:600;color:var(--soft);font-size:.82rem;
vertical-align:bottom;
white-space:normal;min-width:4.6rem}
thead th:first-child{min-width:11rem}
tbody th{font-weight:500;text-align:left;background:var(--paper);white-space:normal;min-width:11rem}
th:first-child{position:sticky;left:0;text-align:left;z-index:1;border-right:1px solid var(--line)}
td.text,th.text{text-align:left}
.series{display:flex;align-items:baseline}
tr.baseline td,tr.baseline th{background:var(--wash)}
tr.unfinished td,tr.unfinished th{color:var(--soft)}
strong,.legend b{font-weight:700}
.pm{color:var(--soft);font-weight:400;font-size:.92em}
.none{color:var(--soft)}
.badge{font-size:.74rem;padding:.05rem .4rem;border:1px solid var(--line);border-radius:99px;
color:var(--soft);
white-space:nowrap}
th button{all:unset;cursor:pointer;display:inline}
th button:hover{color:var(--ink);text-decoration:underline}
th button:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
th button::after{content:"\\00a0\\2195";opacity:.55;font-weight:400}
th[aria-sort] button::after{opacity:1;color:var(--accent)}
th[aria-sort=ascending] button::after{content:"\\00a0\\25B2"}
th[aria-sort=descending] button::after{content:"\\00a0\\25BC"}
.contents{font-size:.9rem;margin:.8rem 0;padding:.5rem .8rem;background:var(--wash);
border-radius:8px}
.contents b{font-weight:600;margin-right:.6rem}
.contents ul{display:inline;padding:0;margin:0}
.contents li{display:inline-block;margin:0 .9rem 0 0}
.contents div+div{margin-top:.3rem}
h2,h3,section{scroll-margin-top:.6rem}
.more{display:none;margin:-.5rem 0 .9rem;font-size:.84rem;color:var(--accent)}
.wide{box-shadow:inset -16px 0 12px -14px var(--soft)}
.wide+.more{display:block}
.swatch{width:26px;height:10px;margin-right:.45rem;vertical-align:.06em;flex:none}
.interval{display:block;width:100%;min-width:100px;height:10px;margin-top:.2rem}
.interval line{stroke:var(--soft);stroke-width:1.6}
.interval .zero{stroke:var(--ink);stroke-width:1;opacity:.55}
.interval circle{fill:var(--soft)}
.interval.evidence line:not(.zero){stroke:var(--accent);stroke-width:2.2}
.interval.evidence circle{fill:var(--accent)}
.charts,.medium,.small,.pictures{display:grid;gap:1.4rem 1.6rem;margin:1rem 0}
.charts{grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr))}
.charts figure{max-width:570px}
.medium{grid-template-columns:repeat(auto-fill,minmax(min(100%,300px),1fr))}
.small{grid-template-columns:repeat(auto-fill,minmax(min(100%,260px),1fr))}
figure{margin:0;min-width:0}
figcaption{font-weight:600;font-size:.95rem;margin-bottom:.3rem}
.chart{display:block;width:100%;height:auto;color:var(--ink);overflow:visible}
.chart *{stroke-linejoin:round}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.1rem 1rem;padding:0;margin:.3rem 0 0;
font-size:.84rem}
.legend li{display:flex;align-items:center;gap:0 .25rem}
.legend .swatch{margin-right:.15rem}
.picture .box{border:0;background:none;margin:0}
.picture img{display:block;max-width:100%;height:auto;background:#fff;border-radius:6px}
.bar{max-width:26rem}
.picture figcaption{font-weight:400;color:var(--soft)}
footer{margin-top:3rem;border-top:1px solid var(--line);padding-top:.8rem;color:var(--soft);
font-size:.88rem}
@media(max-width:600px){h1{font-size:1.5rem}tbody th,thead th:first-child{min-width:7.5rem;
max-width:42vw}
th,td{padding:.4rem .55rem}.charts .chart text{font-size:12.5px!important}}
@media(max-width:600px){.picture img{max-width:none;width:46rem}}
@media(prefers-color-scheme:dark){.picture img{filter:brightness(.86);padding:.4rem}}
@media print{.more{display:none}
.box{overflow:visible}body{max-width:none}figure,table{break-inside:avoid}}
"""

STYLE = _RULES.replace("COLOURS", _variables(COLOURS)).replace("DARK", _variables(DARK_COLOURS))

SCRIPT = """
"use strict";
const boxes = [...document.querySelectorAll(".box")];
const look = () => boxes.forEach((box) =>
  box.classList.toggle("wide", box.scrollWidth > box.clientWidth + 1));
look();
addEventListener("resize", look);
addEventListener("load", look);
for (const table of document.querySelectorAll("table.sort")) {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") === "descending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = (row) => row.cells[column].dataset.value;
      const rows = [...body.rows].sort((a, b) => {
        const x = key(a), y = key(b);
        if (x === "" || y === "") return (x === "") - (y === "");
        const numbers = !isNaN(x) && !isNaN(y);
        const order = numbers ? x - y : x.localeCompare(y, "en", {numeric: true});
        return up ? order : -order;
      });
      body.append(...rows);
    });
  });
}
"""
