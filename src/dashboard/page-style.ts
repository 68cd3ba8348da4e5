/** The look of the page: the colours of the reports, denser, because it is read at a glance. */
import { themeStyle } from '../report/page-style.js';

const base = `
*{box-sizing:border-box}
[hidden]{display:none!important}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",sans-serif}
main,.top,footer{max-width:1280px;margin:0 auto;padding:0 28px}
h2,h3{line-height:1.25;margin:0;font-weight:650;letter-spacing:-.01em}
h2{font-size:1.18rem}
h2 small{font-size:.8rem;font-weight:400;letter-spacing:0;margin-left:8px}
h3{font-size:1rem}
p{margin:.4rem 0}
section{margin:30px 0 0;scroll-margin-top:8px}
ul{list-style:none;margin:0;padding:0}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:.88em}
.soft{color:var(--soft)}
.faint{color:var(--faint)}
.small{font-size:.86rem;overflow-wrap:anywhere}
.lead{max-width:80ch;font-size:.9rem;margin:.25rem 0 .6rem}
.empty{color:var(--soft);margin:10px 0 0;font-size:.9rem}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px;border-radius:4px}
.skip{position:absolute;left:-999px}
.skip:focus{left:12px;top:8px;background:var(--card);padding:6px 12px;z-index:2}
.unseen{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap;margin:0}
.top{display:flex;gap:8px 16px;align-items:center;padding-top:22px;flex-wrap:wrap}
.brand{display:flex;gap:10px;align-items:center;font-weight:650;font-size:1.08rem;letter-spacing:-.01em}
.brand svg{width:30px;height:30px}
.tools{margin-left:auto;display:flex;gap:8px;align-items:center}
button,select,input{font:inherit;font-size:.86rem;color:var(--ink);background:var(--card);border:1px solid var(--line);border-radius:8px;padding:4px 12px}
button{border-radius:999px;cursor:pointer;color:var(--soft)}
button:hover,select:hover{color:var(--ink);border-color:var(--faint)}
button[aria-pressed=true]{color:var(--amber);border-color:var(--amber);background:var(--amber-wash)}
.pill{font-size:.82rem;font-weight:600;display:inline-flex;align-items:center;gap:7px;padding:3px 12px;border-radius:999px;background:var(--grey-wash);color:var(--soft)}
.pill::before{content:"";width:8px;height:8px;border-radius:50%;background:currentColor}
.pill.live{background:var(--accent-wash);color:var(--accent)}
.pill.paused,.pill.locked{background:var(--amber-wash);color:var(--amber)}
.pill.paused::before{border-radius:1px}
.pill.lost{background:var(--attack-wash);color:var(--attack)}
.pill.lost::before{background:none;border:2px solid currentColor}
footer{padding-top:28px;padding-bottom:36px;color:var(--soft);font-size:.82rem}
.notice{margin-top:18px;padding:14px 20px;border-radius:12px;border-left:5px solid var(--tone);background:var(--wash);--tone:var(--accent);--wash:var(--accent-wash)}
.notice.warning{--tone:var(--amber);--wash:var(--amber-wash)}
.notice.trouble{--tone:var(--attack);--wash:var(--attack-wash)}
.notice b{color:var(--tone)}
.notice p{max-width:90ch;overflow-wrap:anywhere}
.notice pre{margin:8px 0 2px;padding:8px 14px;border-radius:8px;background:var(--card);white-space:pre-wrap;overflow-wrap:anywhere}
.card{background:var(--card);border:1px solid var(--line);border-radius:14px;padding:18px 22px}
#access{margin-top:18px}
#access .wrong{color:var(--attack);font-weight:600}
`;

const overview = `
.figures{display:flex;flex-wrap:wrap;gap:12px 44px;margin:22px 0 0}
.figures div{display:flex;flex-direction:column-reverse}
.figures dd{margin:0;font-size:1.7rem;font-weight:650;letter-spacing:-.02em;line-height:1.2;font-variant-numeric:tabular-nums}
.figures dt{font-size:.82rem;color:var(--soft)}
.figures dd.some{color:var(--attack)}
.filters{display:flex;flex-wrap:wrap;gap:8px 20px;margin:18px 0 0;font-size:.86rem;color:var(--soft)}
.filters select{margin-left:6px;max-width:230px}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,460px),1fr));gap:18px}
.key{display:flex;flex-wrap:wrap;gap:4px 20px;font-size:.82rem;color:var(--soft);margin:0 0 12px}
.key i{display:inline-block;vertical-align:-1px;margin-right:7px;width:20px;height:11px}
.key .k-line{border-top:2px solid var(--accent);height:5px}
.key .k-band{background:var(--accent-wash);border-radius:2px}
.key .k-middle{border-top:1.5px dashed var(--accent);height:5px}
.key .k-low{width:9px;height:9px;background:var(--attack)}
.key .k-high{width:11px;height:10px;background:var(--amber);clip-path:polygon(50% 0,100% 100%,0 100%)}
.key .k-rejected{width:4px;background:var(--faint);opacity:.4}
figure.stream{margin:0;min-width:0}
.stream figcaption{display:flex;justify-content:space-between;gap:6px 18px;flex-wrap:wrap;align-items:baseline;margin-bottom:8px}
.stream h3{overflow-wrap:anywhere}
.stream h3 small{font-weight:400;color:var(--soft);font-size:.8rem}
.now{display:flex;gap:10px;align-items:baseline}
.now b{font-size:1.45rem;font-weight:650;letter-spacing:-.02em;font-variant-numeric:tabular-nums}
.now span{font-size:.82rem;color:var(--soft)}
.stream.low{border-color:var(--attack)}
.stream.low .now b{color:var(--attack)}
.stream.high .now b{color:var(--amber)}
.stream svg{display:block;width:100%;height:auto;overflow:visible;font-size:11px}
.axes text{fill:var(--soft)}
.axes .rule{stroke:var(--line)}
.stream .band{fill:var(--accent-wash);opacity:.8}
.stream .middle{stroke:var(--accent);stroke-dasharray:5 5;opacity:.75}
.stream .line{fill:none;stroke:var(--accent);stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.slice.usual{fill:var(--accent)}
.slice.low{fill:var(--attack);stroke:var(--card);stroke-width:1}
.slice.high{fill:var(--amber);stroke:var(--card);stroke-width:1}
.events{margin-top:26px}
.events section{margin:0;min-width:0}
.events ul{max-height:330px;overflow-y:auto;margin:10px -10px 0;padding:0 10px}
.events ul:empty{display:none}
.event{border-left:3px solid var(--tone);padding:1px 0 1px 14px;margin:0 0 16px;--tone:var(--attack)}
.event p{margin:.25rem 0 0;overflow-wrap:anywhere}
.event .place{font-size:.8rem;color:var(--soft)}
.event .head{display:flex;gap:10px;align-items:baseline;font-size:.84rem;flex-wrap:wrap}
.event time{margin-left:auto;color:var(--soft);font-variant-numeric:tabular-nums}
.event.low,.event.drift{--tone:var(--amber)}
.event.applied{--tone:var(--ink)}
.event.lifted{--tone:var(--accent)}
.tag{display:inline-block;font-size:.76rem;font-weight:600;padding:0 9px;border-radius:999px;border:1px solid currentColor;white-space:nowrap;color:var(--soft)}
.event .tag{color:var(--tone)}
.tag.normal{color:var(--accent)}
.tag.collapsed{color:var(--card);background:var(--attack);border-color:var(--attack)}
.tag.low{color:var(--amber)}
.tag.ending{border-style:dashed}
`;

const requests = `
.scroll{overflow-x:auto;margin:0 -22px;padding:0 22px}
table{border-collapse:collapse;width:100%;font-size:.86rem;font-variant-numeric:tabular-nums}
th,td{padding:6px 18px 6px 0;text-align:left;border-bottom:1px solid var(--line);white-space:nowrap;vertical-align:middle}
th:last-child,td:last-child{padding-right:0}
thead th{font-weight:600;color:var(--soft);font-size:.8rem}
th.number,td.number{text-align:right}
tbody:last-child tr:last-child>*{border-bottom:0}
tbody.collapsed .length{color:var(--attack);font-weight:650}
tbody.low .length{color:var(--amber);font-weight:650}
td.name span{display:inline-block;max-width:190px;overflow:hidden;text-overflow:ellipsis;vertical-align:bottom}
td.estimated{font-style:italic;color:var(--amber)}
td.derived{color:var(--soft)}
.opener{border:0;background:none;padding:2px 4px 2px 0;border-radius:4px;color:inherit;font-weight:500;font-variant-numeric:inherit}
.opener::before{content:"▸";color:var(--faint);display:inline-block;width:1.1em}
.opener[aria-expanded=true]::before{content:"▾"}
.columns{display:block;max-width:none}
.columns .accepted{fill:var(--accent)}
.columns .rejected{fill:var(--faint);opacity:.28}
.columns .ground{stroke:var(--faint);stroke-width:1}
tbody.collapsed .columns .ground{stroke:var(--attack)}
.opened td{white-space:normal;padding:8px 0 18px 1.3em}
.opened td>div{position:sticky;left:1.3em;max-width:min(1150px,calc(100vw - 88px))}
h2+.key{margin-top:8px}
.boxes{display:flex;flex-wrap:wrap;gap:5px 7px;margin:4px 0 16px;align-items:center;max-width:1100px}
.step{display:inline-flex;gap:1px}
.step span,.key .a,.key .r,.key .b{width:9px;height:14px;border-radius:2px}
.a{background:var(--accent);opacity:.62}
.r{outline:1.5px solid var(--faint);outline-offset:-1px}
.b{outline:1.5px dotted var(--faint);outline-offset:-1px}
dl.facts{display:grid;grid-template-columns:max-content 1fr;gap:3px 22px;margin:0}
dl.facts dt{color:var(--soft)}
dl.facts dd{margin:0;overflow-wrap:anywhere}
`;

const media = `
@media (max-width:700px){
main,.top,footer{padding-left:16px;padding-right:16px}
.card{padding:16px}
.scroll{margin:0 -16px;padding:0 16px}
.tools{margin-left:0;width:100%}
.tools .pill{margin-right:auto}
.figures{display:grid;grid-template-columns:repeat(3,1fr);gap:12px}
.figures dd{font-size:1.35rem}
.filters label{flex:1 1 40%}
.filters select{display:block;width:100%;max-width:none;margin:2px 0 0}
dl.facts{grid-template-columns:1fr;gap:0}
dl.facts dd{margin-bottom:6px}
}
@media (forced-colors:active){
.slice.low,.slice.high,.a,.k-low,.k-high,.columns .accepted{forced-color-adjust:none}
}
@media print{
.tools,.filters,.skip{display:none}
.events ul{max-height:none}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}
}
`;

export const pageStyle = themeStyle + base + overview + requests + media;
