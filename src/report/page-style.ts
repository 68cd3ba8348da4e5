/** Colors by meaning, for light and dark. One accent; the attack is the only other strong color on the page. */
const colors: readonly (readonly [name: string, light: string, dark: string])[] = [
  ['page', '#fbfbf9', '#121614'],
  ['card', '#ffffff', '#191f1c'],
  ['ink', '#1d2421', '#e6ebe7'],
  ['soft', '#5b6661', '#a7b3ad'],
  ['faint', '#8a948f', '#7b8781'],
  ['line', '#e2e6e1', '#2c3531'],
  ['accent', '#17705f', '#5cc5ab'],
  ['accent-wash', '#dcefe8', '#1c3d35'],
  ['attack', '#c2410c', '#fb8f5e'],
  ['attack-wash', '#fbe7dc', '#3d241a'],
  ['amber', '#a16207', '#e5b454'],
  ['amber-wash', '#fbf0d5', '#3f3217'],
  ['grey-wash', '#eef0ee', '#262d2a'],
  ['heat', '194, 65, 12', '251, 143, 94'],
];

const light = colors.map(([name, value]) => `--${name}:${value};`).join('');
const dark = colors.map(([name, , value]) => `--${name}:${value};`).join('');

/** The system's choice unless the reader made another; paper is always light. */
export const themeStyle = `
:root{color-scheme:light;${light}}
@media (prefers-color-scheme:dark){:root:not([data-theme=light]){color-scheme:dark;${dark}}}
:root[data-theme=dark]{color-scheme:dark;${dark}}
@media print{:root,:root:not([data-theme=light]),:root[data-theme=dark]{color-scheme:light;${light}}}
`;

const base = `
*{box-sizing:border-box}
html{scroll-behavior:smooth;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.6 system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",sans-serif}
main,.top,footer{max-width:1240px;margin:0 auto;padding:0 28px}
h1,h2,h3,h4{line-height:1.25;margin:0;font-weight:650;letter-spacing:-.01em}
h2{font-size:1.5rem;margin-bottom:.35rem}
h3{font-size:1.08rem}
h4{font-size:.95rem}
p{margin:.5rem 0;max-width:72ch}
a{color:var(--accent)}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:.86em}
section{padding:44px 0 8px;scroll-margin-top:8px}
.lead{color:var(--soft);margin:0 0 1.2rem}
.soft{color:var(--soft)}
.small{font-size:.86rem}
.nowrap{white-space:nowrap}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px;border-radius:3px}
.skip{position:absolute;left:-999px}
.skip:focus{left:12px;top:8px;background:var(--card);padding:6px 12px;z-index:2}
.top{display:flex;gap:14px;align-items:center;padding-top:26px;flex-wrap:wrap}
.top .brand{display:flex;gap:10px;align-items:center;font-weight:650;letter-spacing:-.01em}
.top svg{width:30px;height:30px}
.top nav{margin-left:auto;display:flex;gap:4px 18px;flex-wrap:wrap;font-size:.88rem}
.top nav a{color:var(--soft);text-decoration:none}
.top nav a:hover{color:var(--accent);text-decoration:underline}
button{font:inherit;font-size:.86rem;color:var(--soft);background:var(--card);border:1px solid var(--line);border-radius:999px;padding:4px 14px;cursor:pointer}
button:hover{color:var(--ink);border-color:var(--faint)}
footer{padding-top:36px;padding-bottom:48px;color:var(--faint);font-size:.84rem}
`;

const verdict = `
.verdict{margin-top:26px;padding:34px 38px;border-radius:16px;background:var(--wash);border-left:6px solid var(--tone)}
.verdict.robust{--tone:var(--accent);--wash:var(--accent-wash)}
.verdict.fragile{--tone:var(--amber);--wash:var(--amber-wash)}
.verdict.collapsed{--tone:var(--attack);--wash:var(--attack-wash)}
.verdict.inconclusive{--tone:var(--faint);--wash:var(--grey-wash)}
.verdict .level{margin:0 0 .3rem;font-weight:650;color:var(--tone)}
.verdict h1{font-size:clamp(1.3rem,2.6vw,1.9rem);max-width:44ch;letter-spacing:-.02em}
.picture{margin:20px 0 18px;padding:16px 18px;border-radius:12px;background:var(--card);max-width:860px}
.verdict .warning{max-width:66ch;margin:0 0 1rem;padding:12px 16px;border-radius:10px;background:var(--card);border:1px solid var(--attack)}
.verdict .meaning{max-width:66ch;color:var(--ink)}
.verdict.inconclusive .level{color:var(--soft)}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(165px,1fr));gap:14px 28px;margin-top:18px}
.figures b{display:block;font-size:1.55rem;font-weight:650;letter-spacing:-.02em;font-variant-numeric:tabular-nums}
.figures i{display:block;font-style:normal;font-size:.84rem}
.figures span{font-size:.84rem;color:var(--soft)}
.gate{margin:18px 0 0;padding:12px 16px;border-radius:10px;background:var(--card);border:1px solid var(--line);list-style:none}
.gate li{margin:.15rem 0}
.tag{display:inline-block;font-size:.76rem;font-weight:600;padding:1px 9px;border-radius:999px;border:1px solid currentColor;vertical-align:.12em;white-space:nowrap}
.tag.pass{color:var(--accent)}.tag.fail{color:var(--attack)}
`;

const data = `
.card{background:var(--card);border:1px solid var(--line);border-radius:14px;padding:22px 24px;margin:0 0 20px}
.card>h3{margin-bottom:.2rem}
.card p,details p{max-width:none}
.scroll{overflow-x:auto;margin:12px -24px 0;padding:0 24px}
table{border-collapse:collapse;width:100%;font-size:.86rem;font-variant-numeric:tabular-nums}
th,td{padding:8px 0 8px 12px;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th:first-child,.left{text-align:left}
th:first-child{padding-left:0}
thead th{font-weight:600;color:var(--soft);font-size:.8rem;vertical-align:top;white-space:normal;min-width:52px}
thead abbr{text-decoration:underline dotted var(--faint);text-underline-offset:3px;cursor:help}
thead small{display:block;font-weight:400;font-size:.72rem;line-height:1.3;color:var(--soft);margin-top:2px}
details.more{margin-top:10px}
details.more>summary{cursor:pointer;color:var(--soft);font-size:.86rem}
tbody th{font-weight:500;text-align:left}
tbody tr:last-child>*{border-bottom:0}
tr.attack>*{color:var(--attack);font-weight:650}
tr.good>*{color:var(--accent);font-weight:650}
td .range{color:var(--faint);font-weight:400;font-size:.82rem}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr));gap:20px}
.grid .card{margin:0}
figure{margin:0;color:var(--soft)}
figcaption{font-size:.86rem;color:var(--soft);margin-bottom:8px}
.plot{display:block;width:calc(100% - var(--left) - 12px);margin:8px 12px 26px var(--left);overflow:visible}
.plot text{font-size:13px;fill:var(--soft)}
.plot .grid,.plot .base{stroke:var(--line)}
.plot line.level{stroke:var(--accent);stroke-width:1.4;stroke-dasharray:7 4}
.plot text.level{fill:var(--accent);paint-order:stroke;stroke:var(--card);stroke-width:4px}
.axis{margin:0;font-size:13px;color:var(--soft)}
.key{display:flex;flex-wrap:wrap;gap:4px 20px;font-size:.84rem;color:var(--soft);margin:0 0 14px;padding:0;list-style:none}
.key svg{width:24px;height:12px;vertical-align:-1px;margin-right:6px;overflow:visible}
`;

const tokens = `
details.prompt{background:var(--card);border:1px solid var(--line);border-radius:14px;margin:0 0 12px}
details.prompt>summary{padding:14px 22px;cursor:pointer;display:flex;gap:4px 16px;align-items:baseline;flex-wrap:wrap;list-style:none}
details.prompt>summary::-webkit-details-marker{display:none}
details.prompt>summary::before{content:"▸";color:var(--faint);width:.8em}
details.prompt[open]>summary::before{content:"▾"}
details.prompt>summary .ask{color:var(--soft);flex:1 1 240px;min-width:0;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
details.prompt>div{padding:2px 22px 20px}
.text{white-space:pre-wrap;overflow-wrap:anywhere;font-size:.9rem;line-height:1.95}
.asked{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--grey-wash);border-radius:10px;padding:12px 16px;font-size:.92rem;margin:8px 0 14px}
mark.suffix{background:var(--attack-wash);color:var(--ink);border-bottom:2px solid var(--attack);padding:1px 2px;border-radius:3px 3px 0 0}
.sides{display:grid;grid-template-columns:1fr 1fr;gap:20px;margin-top:10px}
.sides>div{min-width:0}
.sides h4{margin-bottom:6px}
.sides h4 span{font-weight:400;color:var(--soft)}
.text .a{background:var(--accent-wash);border-radius:3px;box-decoration-break:clone;-webkit-box-decoration-break:clone;padding:2px 0;margin-right:1px}
.text .r{outline:1.5px solid var(--faint);outline-offset:-1px;border-radius:3px;padding:2px 1px;margin-right:1px}
.text .b{outline:1.5px dotted var(--faint);outline-offset:-1px;border-radius:3px;padding:2px 1px;margin-right:1px}
.text .l{background:var(--attack-wash);outline:1.5px solid var(--attack);outline-offset:-1px;border-radius:3px;padding:2px 1px;margin-right:1px}
.text .d{text-decoration:underline wavy var(--attack) 1.5px;text-underline-offset:3px;font-weight:650}
.text .end{color:var(--faint);user-select:none;white-space:nowrap}
.text.code,.asked.code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:.82rem;tab-size:4}
.aside{margin-top:16px;padding:12px 16px;border:1px solid var(--line);border-radius:10px}
.aside h4{margin-bottom:6px}
.aside h4 span{font-weight:400;color:var(--soft)}
.aside.other{border-style:dashed;border-color:var(--faint)}
.drafter-block{border-top:1px solid var(--line);padding-top:14px;margin-top:16px}
.limits{border:1px dashed var(--faint);border-radius:14px;padding:18px 24px;margin-top:20px}
.limits ul{margin:.4rem 0 0;padding-left:1.2rem}
.limits li{margin:.3rem 0;max-width:80ch}
dl.facts{display:grid;grid-template-columns:max-content 1fr;gap:6px 24px;margin:0;font-size:.92rem}
dl.facts dt{color:var(--soft)}
dl.facts dd{margin:0;overflow-wrap:anywhere}
pre.command{background:var(--grey-wash);border-radius:10px;padding:14px 18px;overflow-x:auto;white-space:pre-wrap;overflow-wrap:anywhere;margin:14px 0 0}
`;

const media = `
@media (max-width:700px){
main,.top,footer{padding-left:16px;padding-right:16px}
.verdict{padding:24px 20px}
.card{padding:18px 16px}
.scroll{margin-left:-16px;margin-right:-16px;padding:0 16px}
.sides{grid-template-columns:1fr}
.figures{grid-template-columns:1fr 1fr;gap:14px 18px}
.picture{padding:12px}
.figures[role=group] div:first-child{grid-column:1/-1}
.figures b{font-size:1.3rem}
.top nav{margin-left:0;order:3;width:100%}
.top button{margin-left:auto}
dl.facts{grid-template-columns:1fr;gap:0}
td .range{display:block}
dl.facts dd{margin-bottom:8px}
section{padding-top:32px}
tbody th:first-child,thead th:first-child{position:sticky;left:-16px;background:var(--card);box-shadow:inset 0 -1px var(--line)}
tbody tr:last-child>th:first-child{box-shadow:none}
}
@media (prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
@media print{
html{font-size:11px}
body{font-size:1rem;background:#fff}
.top nav,button,.skip{display:none}
main,.top,footer{max-width:none;padding:0}
figure,tr,.limits,.figures,.key{break-inside:avoid}
h1,h2,h3,h4,.lead,.level,.axis,.key,figcaption,summary,thead{break-after:avoid}
section{padding-top:20px}
.card{padding:12px 14px}
.grid{grid-template-columns:1fr 1fr}
.plot text,.axis{font-size:10px}
table{font-size:.8rem}
th,td{padding-left:8px}
th{white-space:normal}
td .range{display:block}
.scroll{overflow:visible}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}
}
`;

export const pageStyle = themeStyle + base + verdict + data + tokens + media;
