"""A minified script does the same: names do not collide, texts and properties do not change."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from nbcompile.views import assets, html
from nbcompile.views.minify import minified

PROGRAMS = {
    "one declaration": ("const one = 1; const two = () => { return 2; }; const three = 3;", "[one, two(), three]"),
    "shadows": ("const a = 1; const f = a => { const b = a + 1; return [1, 2].map(a => a * b); };", "[a, f(4)]"),
    "an outer name meant inside": ("const out = 5; const f = x => y => z => x + y + z + out;", "f(1)(2)(3)"),
    "a body and its parameters": (
        "const f = (value, rest) => { const made = value + rest; return made; };",
        "f(1, 2)",
    ),
    "keys": ("const value = 3; const made = { value, other: value, f: value => value };", "[made, made.f(4), made.value]"),
    "patterns": (
        "const f = ({ value, other: [first, second = value] }, { third } = { third: 9 }) => [value, first, second, third];",
        "f({ value: 1, other: [2] })",
    ),
    "a loop over values": (
        "const sum = list => { let made = 0; for (const each of list) made += each; return made; }; const each = 7;",
        "[sum([1, 2]), each]",
    ),
    "a loop over keys": (
        "const keys = all => { let made = ''; for (const key in all) made += key; return made; }; const all = { a: 1 };",
        "[keys(all), keys([4, 5])]",
    ),
    "a loop without braces": (
        "const f = n => { let up; for (let i = 0; i < n; i += 1) if (i > 1) up = i; else up = -i; const i = 8; return [up, i]; };",
        "f(4)",
    ),
    "choices": ("const f = x => x ? y => y + x : y => y; const y = 3;", "[f(1)(2), f(0)(2), y]"),
    "texts": ("const a = ';}'; const b = `( ${a} , { ${a + `[${a}]`} ;}`; const c = /[{;]/.test(a);", "[a, b, c]"),
    "words": ("const has = (key, all) => key in all; const kind = v => typeof v; const no = undefined;", "[has('a', {a: 1}), kind(1), no]"),
    "signs": ("const a = 1, b = 2; const c = a + +b; const d = a - -b; const e = 0.5;", "[c, d, e, 1.25]"),
    "optional": ("const a = { b: { c: 1 } }; const c = 2;", "[a?.b?.c, a.x?.c, c]"),
}  # fmt: skip

node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not here")


def run(program):
    done = subprocess.run(["node", "-e", f'"use strict";{program}'], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@node
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_does_the_same(name):
    """The minified script gives the same value, and is shorter."""
    program, value = PROGRAMS[name]
    program = f"{program}\nconsole.log(JSON.stringify({value}));"
    small = minified(program)
    assert run(small) == run(program)
    assert len(small) < len(program)


def test_names_and_spaces_are_gone():
    """Declared names become letters, other names remain, and comments are removed."""
    assert minified("const wide = one => one + 1; /* so */ const high = 2; // or so\n") == "let a=a=>a+1,b=2;"
    assert minified("const wide = 1;\nlog(wide.wide, { wide });") == "let a=1;log(a.wide,{wide:a});"
    assert minified("const f = (one, two) => { const sum = one + two; return sum; };") == (
        "let a=(a,b)=>{let c=a+b;return c};"
    )


@node
@pytest.mark.parametrize("parts", [(), html.ALL_PROGRAMS, ("trees", "what_if")])
def test_no_name_of_the_script_is_unknown(parts):
    """Each bundle uses only its own names and the browser's."""
    script = str(assets.script(*parts)).removeprefix("<script>").removesuffix("</script>")
    free = run(
        "const known = new Proxy({}, { has: (_, name) => { seen.add(name); return true; },"
        " get: (_, name) => name === Symbol.unscopables ? undefined : name === 'document' ? page : globalThis[name] });"
        "const seen = new Set(), page = { querySelectorAll: () => [], addEventListener: () => {} };"
        f"new Function('known', 'with (known) {{' + {json.dumps(script.replace(chr(34) + 'use strict' + chr(34) + ';', ''))} + '}}')(known);"
        "console.log(JSON.stringify([...seen]));"
    )
    assert all(len(each) > 2 for each in free), free
    assert "document" in free
