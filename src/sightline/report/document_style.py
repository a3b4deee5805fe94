"""The look of pages: type, tables, figures, in dark and in light as the reader has it, on phones and on paper."""

STYLE = """
:root { color-scheme: light dark; --ground: #fff; --raised: #f6f6f6; --ink: #222; --faint: #5c5c5c; --line: #e4e4e4;
  --good: #23704a; --bad: #b83227; --perhaps: #8f5300; --accent: #174a8c; }
@media screen and (prefers-color-scheme: dark) {
  :root { --ground: #16191d; --raised: #22262b; --ink: #e8e8e8; --faint: #aab0b6; --line: #33383e; --good: #5fc08a;
    --bad: #ff7b6b; --perhaps: #eab04a; --accent: #8ab8f5; }
}
body { font: 15px/1.5 Helvetica, Arial, sans-serif; color: var(--ink); background: var(--ground); margin: 0; }
main { max-width: 1000px; margin: 0 auto; padding: 28px 20px 40px; }
h1 { font-size: 24px; line-height: 1.25; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 17px; margin: 34px 0 8px; } h3 { font-size: 15px; margin: 24px 0 6px; }
p { margin: 0 0 4px; overflow-wrap: anywhere; } ul { padding-left: 20px; margin: 4px 0; } li { margin: 0 0 4px; }
.faint { color: var(--faint); } .bad { color: var(--bad); } .good { color: var(--good); }
.perhaps { color: var(--perhaps); }
dl { margin: 16px 0; } dt { color: var(--faint); font-size: 12px; } dd { margin: 0; }
.answer { border-left: 3px solid var(--accent); padding: 2px 0 2px 14px; }
.answer div { display: grid; grid-template-columns: 130px 1fr; gap: 4px 12px; padding: 3px 0; }
.answer dt { font-size: 14px; } .answer dd { font-size: 16px; font-weight: bold; overflow-wrap: anywhere; }
.figures { display: flex; flex-wrap: wrap; gap: 10px; }
.figures div { border: 1px solid var(--line); border-radius: 6px; padding: 8px 14px; min-width: 96px; display: flex;
  flex-direction: column-reverse; justify-content: flex-end; }
.figures dd { font-size: 18px; font-weight: bold; }
.scroll { overflow-x: auto; background:
    linear-gradient(to right, var(--ground) 40%, transparent) left / 36px 100% no-repeat local,
    linear-gradient(to left, var(--ground) 40%, transparent) right / 36px 100% no-repeat local,
    linear-gradient(to right, #8886, transparent) left / 12px 100% no-repeat,
    linear-gradient(to left, #8886, transparent) right / 12px 100% no-repeat; }
.scroll:focus-visible, pre:focus-visible { outline: 2px solid var(--accent); }
table { border-collapse: collapse; margin: 6px 0 14px; }
th { text-align: left; color: var(--faint); font-weight: normal; font-size: 13px; }
th, td { padding: 4px 14px 4px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.sentence { min-width: 170px; }
pre { background: var(--raised); padding: 12px 14px; border-radius: 6px; overflow-x: auto; font-size: 13px; }
code { overflow-wrap: anywhere; font-size: 13px; }
details { border-top: 1px solid var(--line); padding: 10px 0; } summary { cursor: pointer; font-weight: bold; }
details details { margin-left: 18px; padding: 6px 0; } details details summary { font-weight: normal; }
figure { margin: 18px 0; } figcaption { font-weight: bold; margin: 0 0 4px; }
.vega-embed svg { max-width: 100%; height: auto; }
#vg-tooltip-element { position: fixed; visibility: hidden; z-index: 9; padding: 6px 10px; border-radius: 6px;
  font-size: 12.5px; background: var(--ground); color: var(--ink); border: 1px solid var(--line); pointer-events: none;
  max-width: 320px; }
#vg-tooltip-element.visible { visibility: visible; }
#vg-tooltip-element table { margin: 0; font-size: 12.5px; } #vg-tooltip-element td { border: 0; padding: 1px 4px; }
#vg-tooltip-element .key { color: var(--faint); }
.files { display: flex; gap: 6px; justify-content: flex-end; }
.files button { font: inherit; font-size: 12px; color: var(--faint); background: none; border: 1px solid var(--line);
  border-radius: 4px; padding: 2px 8px; cursor: pointer; }
.files button:hover, .files button:focus-visible { color: var(--accent); border-color: var(--accent); }
footer { margin-top: 44px; border-top: 1px solid var(--line); padding-top: 10px; color: var(--faint); font-size: 13px; }
@media (max-width: 560px) {
  main { padding: 18px 12px 30px; } th, td { padding-right: 9px; font-size: 13px; }
  .answer div { grid-template-columns: 1fr; gap: 0; } .answer dt { font-size: 12px; }
}
@media print {
  main { max-width: none; padding: 0; } .files { display: none; } .scroll { overflow: visible; background: none; }
  pre, td { white-space: pre-wrap; } figure, .figures div, tr, details[open] > summary { break-inside: avoid; }
  h2, h3, summary { break-after: avoid; } td, th { font-size: 11px; }
}
"""
"""The rules that all pages share. Colors of text keep 4.5 : 1 on their ground."""
