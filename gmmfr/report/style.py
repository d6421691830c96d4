"""The page's style: light and dark, no network."""

STYLE = """
:root{--bg:#f6f7f9;--card:#fff;--ink:#1b2330;--quiet:#5c6675;--line:#e2e6ec;--code:#f0f2f5;--good:#12805c;
--goodbg:#dff5ec;--bad:#b3261e;--badbg:#fde7e4;--warn:#8a5a00;--warnbg:#fff1d6;--accent:#2457c5;
--l0:#e6ecf5;--l1:#c3dafa;--l2:#8fbcf5;--l3:#4f90e8;--l4:#fbc9a2;--l5:#f59b62;--l6:#e2593b;--l7:#a81d1d}
@media(prefers-color-scheme:dark){:root{--bg:#10141b;--card:#181e27;--ink:#e6eaf0;--quiet:#9aa5b4;--line:#2a323e;
--code:#202834;--good:#5fd6a8;--goodbg:#123a2d;--bad:#ff8a80;--badbg:#471a1a;--warn:#f1c069;--warnbg:#40300f;
--accent:#86acff;--l0:#222b38;--l1:#1f3a5f;--l2:#285a9c;--l3:#3c86e0;--l4:#7a4a25;--l5:#b5652b;--l6:#e0593c;
--l7:#ff7b6b}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,
"Noto Sans","DejaVu Sans",sans-serif}
main{max-width:1060px;margin:0 auto;padding:28px 20px 60px}
header{display:flex;gap:18px;align-items:flex-start;justify-content:space-between;flex-wrap:wrap}
h1{font-size:24px;line-height:1.25;margin:0 0 6px}h2{font-size:18px;margin:0 0 12px}
h3{font-size:14px;margin:22px 0 6px;color:var(--quiet);font-weight:600}
p{margin:6px 0}.quiet{color:var(--quiet)}
.card{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:20px 22px;
margin-top:18px}
.badge{display:inline-block;border-radius:999px;padding:2px 11px;font-weight:650;font-size:13px;
white-space:nowrap}
.big{font-size:20px;padding:7px 20px}
.PASS{color:var(--good);background:var(--goodbg)}.FAIL,.INVALID,.FAILED{color:var(--bad);background:var(--badbg)}
.NOTRUN{color:var(--warn);background:var(--warnbg)}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:14px}
th{color:var(--quiet);font-weight:600;text-align:left}
th,td{padding:5px 12px 5px 0;border-bottom:1px solid var(--line);vertical-align:top}
tbody tr:last-child td{border-bottom:0}
.num{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:13px}
pre{background:var(--code);border-radius:8px;padding:10px 14px;overflow-x:auto;margin:8px 0}
svg{width:100%;height:auto;display:block}svg text{fill:var(--quiet);font-size:11px}.axis{stroke:var(--line)}
.facts{display:flex;flex-wrap:wrap;gap:10px 34px;margin:12px 0 4px}
.facts div{min-width:90px}.facts b{display:block;font-size:19px;font-variant-numeric:tabular-nums}
.facts span{color:var(--quiet);font-size:13px}
.legend{display:flex;flex-wrap:wrap;gap:4px 14px;font-size:12.5px;color:var(--quiet);margin:4px 0 10px}
.swatch{display:inline-block;width:12px;height:12px;border-radius:3px;margin-right:5px;vertical-align:-1px}
.bar{display:inline-block;width:120px;height:9px;background:var(--code);border-radius:5px;overflow:hidden}
.fill{display:block;height:100%}
.why{border-left:4px solid var(--bad);padding:2px 0 2px 14px;margin:12px 0}
.why b{display:block}ul{margin:6px 0;padding-left:20px}summary{cursor:pointer;color:var(--accent)}
footer{color:var(--quiet);font-size:13px;margin-top:22px}
""" + "".join(f".l{i}{{fill:var(--l{i});background:var(--l{i})}}" for i in range(8))
